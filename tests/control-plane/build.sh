#!/bin/sh
# Builds the local control plane into target/control-plane/bin:
#   control-plane  etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl and the
#                  commands up, down, status, start, stop, audit
#   kubectl        a link to it
#   kwok           stands in for kubelets
# It does nothing when the sources did not change, and two of it at once take turns.
# Example: tests/control-plane/build.sh && target/control-plane/bin/control-plane up
# Exit codes: 0 built or up to date, 1 not built (stderr says why).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
bin=$root/target/control-plane/bin
stamp=$bin/.sources
# shellcheck source=tests/script.sh
. "$root/tests/script.sh"

begin_go "$bin/.lock" 'the control plane'
cd "$here"
# Tests are no part of the binaries, so a change of theirs builds nothing.
sources=$({
    go version
    find . -type f \( -name '*.go' ! -name '*_test.go' -o -name go.mod -o -name go.sum -o -name '*.yaml' -o -name build.sh \) | LC_ALL=C sort | xargs sha256sum
} | sha256sum)
if [ -x "$bin/control-plane" ] && [ -x "$bin/kwok" ] && [ -e "$bin/kubectl" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$sources" ]; then
    exit 0
fi

if [ -x "$bin/control-plane" ]; then
    echo 'building the control plane again: its sources changed' >&2
else
    echo 'building the control plane the first time: about 5 minutes on 2 idle cores, 150 MB from the Go module proxy' >&2
fi

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes) || fail 'the modules cannot be resolved' "$here/go.mod" 'check that the Go module proxy can be reached (go env GOPROXY)'
major=${version#v}
major=${major%%.*}
minor=${version#v"$major".}
minor=${minor%%.*}
package=k8s.io/component-base/version
stamps="-X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
# Fixed, so that the same sources give the same binary on every machine.
stamps="$stamps -X $package.gitCommit=$version -X $package.gitTreeState=archive -X $package.buildDate=1970-01-01T00:00:00Z"

fresh=$bin/.fresh
rm -rf "$fresh"
mkdir "$fresh"
# No debug information is written, which -s and -w would remove.
go build -mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags "-s -w $stamps" -o "$fresh/" . ./kwok ||
    fail_go 'the control plane' "$here"
# Moved, not copied over: a control plane that runs keeps the file it was started from.
mv -f "$fresh/control-plane" "$fresh/kwok" "$bin/"
ln -sfn control-plane "$bin/kubectl"
rmdir "$fresh"
printf '%s\n' "$sources" >"$stamp"
echo "built $bin/control-plane, kubectl and kwok" >&2
