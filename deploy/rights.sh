#!/usr/bin/env bash
# Prints the rights of a host with these plugins, as `hotshoe rbac` does, and of those that the host of
# the cluster of $KUBECONFIG may be already: the rights of a host are one set of objects, whatever its
# plugins are, so to apply fewer would remove those of a host that runs.
# Usage: deploy/rights.sh FOLDER [folder of another plugin, or anything else, which is passed over…]
# Example: deploy/rights.sh plugins/memcached | kubectl apply -f -
# Needs kubectl, and the components of FOLDER… built.
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: $0 FOLDER [FOLDER…]" >&2 && exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/target/control-plane/bin:$PATH"

held=$(kubectl get role hotshoe-impersonates --namespace hotshoe-system --ignore-not-found -o jsonpath='{.rules[*].resourceNames[*]}')
plugins=("$1")
shift
secure=
[[ " $* " != *' --metrics-secure '* ]] || secure=--metrics-secure
for other in "$@" ${held:+$(printf 'plugins/%s ' $held)}; do
    [ -e "$other/plugin.yaml" ] || [[ $other == */plugin.yaml ]] || continue
    [[ " ${plugins[*]} " == *" $other "* ]] || plugins+=("$other")
done
for name in $held; do
    [ ! -e "plugins/$name" ] || [ -e "target/plugins/$name.wasm" ] || target/release/hotshoe build "plugins/$name" >&2
done
rights=$(target/release/hotshoe rbac $secure "${plugins[@]}")
for name in $held; do
    grep -q "name: hotshoe-$name\$" <<<"$rights" ||
        echo "note: the rights of the plugin $name are not among these, for it is not in plugins/; name its folder too to keep them" >&2
done
printf '%s\n' "$rights"
