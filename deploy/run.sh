#!/usr/bin/env bash
# What `just host` does: runs a host on this machine that follows the Plugin objects of the cluster of $KUBECONFIG, under
# the host's own account. The log goes to standard error and to target/run/hotshoe.log.
# Usage: deploy/follow.sh [option of `hotshoe run`…]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
run=$PWD/target/run
mkdir -p "$run"
target/release/hotshoe rbac --host-only >"$run/rbac.yaml"
deploy/local-account.sh "$KUBECONFIG" "$run/hotshoe.kubeconfig" "$run/rbac.yaml"
export MEMCACHED_IMAGE="${MEMCACHED_IMAGE-memcached:1.4.36-alpine}"
unset KUBECONFIG
exec target/release/hotshoe run --kubeconfig "$run/hotshoe.kubeconfig" --files-dir "$PWD" "$@" \
    2> >(exec tee -i "$run/hotshoe.log" >&2)
