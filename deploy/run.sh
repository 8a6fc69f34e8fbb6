#!/usr/bin/env bash
# Run by `just host` and `just run`: applies the objects of the plugins that are named, and runs a host on this machine,
# under the host's own account, that follows the Plugin objects of the cluster of $KUBECONFIG. The log goes to
# standard error and to target/run/hotshoe.log; target/run/hotshoe.pid has the process id. On another port than 8080 they
# are named after it: hotshoe-8081.log.
# Usage: deploy/run.sh [NAME of a plugin in plugins/…] [option of `hotshoe run`…]
# Example: deploy/run.sh memcached nginx --listen 127.0.0.1:8081
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
plugins=()
while [[ ${1:--} != -* ]]; do plugins+=("$1") && shift; done
. deploy/listen.sh "$@"
secure=
[[ " $* " != *' --metrics-secure '* ]] || secure=--metrics-secure
webhooks=
[[ " $*" != *' --webhooks'* ]] || webhooks=--webhooks

mkdir -p "$(dirname "$files")"
target/release/hotshoe rbac --host-only $secure $webhooks >"$files.rbac.yaml"
deploy/local-account.sh "$KUBECONFIG" "$files.kubeconfig" "$files.rbac.yaml"
[ ${#plugins[@]} -eq 0 ] || deploy/apply.sh $webhooks "${plugins[@]}"
unset KUBECONFIG
echo $$ >"$files.pid" # the host takes the place of this shell
exec target/release/hotshoe run --kubeconfig "$files.kubeconfig" --files-dir "$PWD" "$@" \
    2> >(exec tee -i "$files.log" >&2)
