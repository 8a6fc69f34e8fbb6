#!/usr/bin/env bash
# Checks that recipes that act on a cluster refuse an option that they do not have, before they act: otherwise one that
# is spelled wrongly, or meant for another recipe, would be ignored.
# Usage: tests/recipes.sh [path of just]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
just=${1:-just}
# Nothing is reached: a recipe that goes on fails here, with another message.
export HOTSHOE_CLUSTER=current KUBECONFIG=/dev/null

refuses() {
    local code=0 printed
    printed=$("$just" --justfile justfile "$@" --unknown 2>&1) || code=$?
    if [ $code != 2 ] || [[ $printed != *--unknown*'nothing was changed'* ]]; then
        printf 'error: `just %s --unknown` ends with the exit code %s instead of 2, and says:\n%s\n' "$*" $code "$printed" >&2
        exit 1
    fi
}

for recipe in install uninstall undeploy deploy 'apply memcached'; do
    # shellcheck disable=SC2086 # the recipe and its argument
    refuses $recipe
done
echo 'each recipe refuses an option that it does not have'
