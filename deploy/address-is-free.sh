#!/usr/bin/env bash
# Run by `just run` before anything is replaced: fails if something already answers on the address on which
# a host with these options would listen.
# Usage: deploy/address-is-free.sh [option of `hotshoe run`…]
# Example: deploy/address-is-free.sh --listen 127.0.0.1:9090
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/listen.sh" "$@"
# shellcheck disable=SC2154 # deploy/listen.sh sets it
host=${address%:*}
host=${host#[}
if (exec 3<>"/dev/tcp/${host%]}/${address##*:}") 2>/dev/null; then
    printf 'error: something listens on %s already, likely a host; nothing was changed\n  where: `target/release/hotshoe status` says which hosts of yours run here\n  next:  stop it, or run this one elsewhere: ./justw run … --listen 127.0.0.1:8081\n' \
        "$address" >&2
    exit 1
fi
