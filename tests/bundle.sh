#!/bin/sh
# Builds target/tools/bin/bundle-validator, by which bundles for the Operator Lifecycle Manager are tested. It does nothing
# when the sources did not change, and two of it at once take turns. Its modules have the versions of those of the local
# control plane, so that after that only the program itself is compiled: in seconds, alone in a minute.
# Example: tests/bundle.sh && target/tools/bin/bundle-validator bundle
# Exit codes: 0 built or there, 1 not built (stderr says why).
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
bin=$root/target/tools/bin
stamp=$bin/.bundle-validator
# shellcheck source=tests/script.sh
. "$root/tests/script.sh"

begin_go "$bin/.bundle-validator.lock" 'the validator of bundles'
cd "$root/tests/bundle"
sources=$({ go version; sha256sum main.go go.mod go.sum ../bundle.sh; } | sha256sum)
[ ! -x "$bin/bundle-validator" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$sources" ] || exit 0

echo 'building the validator of bundles into target/tools' >&2
# The same options as for the control plane: with others, what was compiled for that could not be used.
go build -mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags '-s -w' -o "$bin/bundle-validator" . ||
    fail_go 'the validator of bundles' "$root/tests/bundle"
printf '%s\n' "$sources" >"$stamp"
