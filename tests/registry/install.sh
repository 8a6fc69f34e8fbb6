#!/bin/sh
# Installs what the tests of registries need, where it is missing: a registry, and a client that is not ours.
#   docker-registry  the reference implementation of the distribution specification
#   skopeo           copies and inspects images
# Example: tests/registry/install.sh
# Exit codes: 0 both are there, 1 not installed (stderr says why).
set -eu

case "${1:-}" in
-h | --help)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 0
    ;;
esac

fail() {
    printf 'error: %s\n  where: %s\n  next:  %s\n' "$1" "$2" "$3" >&2
    exit 1
}

missing=
for program in docker-registry skopeo; do
    command -v $program >/dev/null || missing="$missing $program"
done
[ -n "$missing" ] || exit 0

by_hand="install$missing, for example with: sudo apt-get install --no-install-recommends$missing"
command -v apt-get >/dev/null || fail "the tests of registries need$missing" 'your PATH' "$by_hand"
[ "$(id -u)" = 0 ] || fail "the tests of registries need$missing, and only root can install it" 'your PATH' "$by_hand"

echo "installing$missing with apt-get" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package starts a registry of its own as a service; nothing listens here but what a test starts.
{
    apt-get update
    RUNLEVEL=1 apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 $missing
} >"$log" 2>&1 || {
    cat "$log" >&2
    fail "apt-get does not install$missing" 'its output above' "check that Debian's mirror can be reached, or $by_hand"
}
