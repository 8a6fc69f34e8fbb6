#!/bin/sh
# Builds Helm, by which the chart is tested: Helm 4 into target/tools/bin, or Helm 3 into target/tools/helm-3. It does
# nothing when this version is there, and two of it at once take turns.
# Usage: tests/helm.sh [3]
# Example: tests/helm.sh && target/tools/bin/helm template hotshoe deploy/chart/hotshoe
# Exit codes: 0 built or there, 1 not built (stderr says why).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
case "${1:-}" in
3) version=v3.22.0 bin=$root/target/tools/helm-3 ;;
*) version=v4.3.2 bin=$root/target/tools/bin ;;
esac
major=${version%%.*}
module=helm.sh/helm/$major
# shellcheck source=tests/script.sh
. "$root/tests/script.sh"

is_there() { [ "$("$bin/helm" version --template '{{.Version}}' 2>/dev/null)" = $version ]; }

is_there && exit 0
begin_go "$bin/.helm.lock" Helm
is_there && exit 0

echo "building Helm $version into target/tools, once: about 3 minutes on 2 idle cores" >&2
# The version of Kubernetes for which Helm 3 renders a chart without a cluster; a release of it has one, too. Helm 4 has
# no such variables.
kubernetes=
[ $major != v3 ] || kubernetes="-X $module/pkg/chartutil.k8sVersionMajor=1 -X $module/pkg/chartutil.k8sVersionMinor=36"
# No debug information is written, which -s and -w would remove.
GOBIN=$bin go install -trimpath -gcflags=all=-dwarf=false \
    -ldflags "-s -w -X $module/internal/version.version=$version $kubernetes" "$module/cmd/helm@$version" ||
    fail_go Helm "$root/tests/helm.sh"
