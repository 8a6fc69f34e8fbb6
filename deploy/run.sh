#!/usr/bin/env bash
# Run by `just host` and `just run`: applies the objects of the plugins that are named, and runs a host on this machine,
# under the host's own account, that follows the Plugin objects of the cluster of $KUBECONFIG. The log goes to
# standard error and to target/run/hotshoe.log; target/run/hotshoe.pid has the process id.
# Usage: deploy/run.sh [NAME of a plugin in plugins/…] [option of `hotshoe run`…]
# Example: deploy/run.sh memcached nginx --listen 127.0.0.1:8081
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
run=$PWD/target/run
plugins=()
while [[ ${1:--} != -* ]]; do plugins+=("$1") && shift; done
secure=
[[ " $* " != *' --metrics-secure '* ]] || secure=--metrics-secure

mkdir -p "$run"
target/release/hotshoe rbac --host-only $secure >"$run/rbac.yaml"
deploy/local-account.sh "$KUBECONFIG" "$run/hotshoe.kubeconfig" "$run/rbac.yaml"
[ ${#plugins[@]} -eq 0 ] || deploy/apply.sh "${plugins[@]}"
export MEMCACHED_IMAGE="${MEMCACHED_IMAGE-memcached:1.4.36-alpine}"
unset KUBECONFIG
echo $$ >"$run/hotshoe.pid" # the host takes the place of this shell
exec target/release/hotshoe run --kubeconfig "$run/hotshoe.kubeconfig" --files-dir "$PWD" "$@" \
    2> >(exec tee -i "$run/hotshoe.log" >&2)
