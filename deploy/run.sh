#!/usr/bin/env bash
# What `just run` does: runs the host on this machine, against the cluster of $KUBECONFIG, under the
# host's own account. The log goes to standard error and to target/run/hotshoe.log.
# Usage: deploy/run.sh PLUGIN [option of `hotshoe run`, or folder of another plugin…]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
run=$root/target/run
plugin=$1
shift

cd "$root"
mkdir -p "$run"
deploy/rights.sh "plugins/$plugin" "$@" >"$run/rbac.yaml"
deploy/local-account.sh "$KUBECONFIG" "$run/hotshoe.kubeconfig" "$run/rbac.yaml"
# A host of another plugin on this machine is no replica of this one.
export HOTSHOE_LEASE_NAME="${HOTSHOE_LEASE_NAME-hotshoe-$plugin}"
export MEMCACHED_IMAGE="${MEMCACHED_IMAGE-memcached:1.4.36-alpine}"
unset KUBECONFIG
exec target/release/hotshoe run --kubeconfig "$run/hotshoe.kubeconfig" "$@" "plugins/$plugin" \
    2> >(exec tee -i "$run/hotshoe.log" >&2)
