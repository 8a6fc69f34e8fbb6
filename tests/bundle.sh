#!/bin/sh
# Builds target/tools/bin/bundle-validator, by which bundles for the Operator Lifecycle Manager are tested. It does nothing
# when the sources did not change, and two of it at once take turns. Its modules have the versions of those of the local
# control plane, so that after that only the program itself is compiled: in seconds, alone in a minute.
# Example: tests/bundle.sh && target/tools/bin/bundle-validator bundle
# Exit codes: 0 built or there, 1 not built (stderr says why).
set -eu

case "${1:-}" in
-h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
esac

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
bin=$root/target/tools/bin
stamp=$bin/.bundle-validator

fail() {
    printf 'error: %s\n  where: %s\n  next:  %s\n' "$1" "$2" "$3" >&2
    exit 1
}

command -v go >/dev/null || fail 'Go is not installed' 'your PATH' 'install Go 1.26 or newer from https://go.dev/dl'
mkdir -p "$bin"
exec 9>"$bin/.bundle-validator.lock"
flock 9
cd "$root/tests/bundle"
sources=$({ go version; sha256sum main.go go.mod go.sum ../bundle.sh; } | sha256sum)
[ ! -x "$bin/bundle-validator" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$sources" ] || exit 0

echo 'building the validator of bundles into target/tools' >&2
unset GOFLAGS GOOS GOARCH # it runs here, whatever is being built for elsewhere
export CGO_ENABLED=0      # no C compiler needed
# The same options as for the control plane: with others, what was compiled for that could not be used.
GOGC=${GOGC:-400} go build -mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags '-s -w' -o "$bin/bundle-validator" . ||
    fail 'the validator of bundles does not compile' "$root/tests/bundle" 'read what Go says above; on a new machine, check that the Go module proxy can be reached (go env GOPROXY)'
printf '%s\n' "$sources" >"$stamp"
