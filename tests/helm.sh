#!/bin/sh
# Builds Helm into target/tools/bin, by which the chart is tested. It does nothing when this version is there, and two of
# it at once take turns.
# Example: tests/helm.sh && target/tools/bin/helm template hotshoe deploy/chart/hotshoe
# Exit codes: 0 built or there, 1 not built (stderr says why).
set -eu

version=v4.3.2
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
bin=$root/target/tools/bin
# shellcheck source=tests/script.sh
. "$root/tests/script.sh"

is_there() { [ "$("$bin/helm" version --template '{{.Version}}' 2>/dev/null)" = $version ]; }

is_there && exit 0
begin_go "$bin/.helm.lock" Helm
is_there && exit 0

echo "building Helm $version into target/tools, once: about 3 minutes on 2 idle cores" >&2
# No debug information is written, which -s and -w would remove.
GOBIN=$bin go install -trimpath -gcflags=all=-dwarf=false \
    -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$version" "helm.sh/helm/v4/cmd/helm@$version" ||
    fail_go Helm "$root/tests/helm.sh"
