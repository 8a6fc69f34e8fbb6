#!/bin/sh
# Builds Helm into target/tools/bin, by which the chart is tested. It does nothing when this version is there, and two of
# it at once take turns.
# Example: tests/helm.sh && target/tools/bin/helm template hotshoe deploy/chart/hotshoe
# Exit codes: 0 built or there, 1 not built (stderr says why).
set -eu

case "${1:-}" in
-h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
esac

version=v4.3.2
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
bin=$root/target/tools/bin

fail() {
    printf 'error: %s\n  where: %s\n  next:  %s\n' "$1" "$2" "$3" >&2
    exit 1
}

is_there() { [ "$("$bin/helm" version --template '{{.Version}}' 2>/dev/null)" = $version ]; }

is_there && exit 0
command -v go >/dev/null || fail 'Go is not installed' 'your PATH' 'install Go 1.26 or newer from https://go.dev/dl'
mkdir -p "$bin"
exec 9>"$bin/.helm.lock"
flock 9
is_there && exit 0

echo "building Helm $version into target/tools, once: about 3 minutes on 2 idle cores" >&2
unset GOFLAGS GOOS GOARCH # it runs here, whatever is being built for elsewhere
export CGO_ENABLED=0      # no C compiler needed
# As for the control plane: garbage is collected seldom, and no debug information is written, which -s and -w would remove.
GOGC=${GOGC:-400} GOBIN=$bin go install -trimpath -gcflags=all=-dwarf=false \
    -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$version" "helm.sh/helm/v4/cmd/helm@$version" ||
    fail 'Helm does not compile' "$root/tests/helm.sh" 'read what Go says above; on a new machine, check that the Go module proxy can be reached (go env GOPROXY)'
