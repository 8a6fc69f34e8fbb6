#!/usr/bin/env bash
# Prints the name of a plugin in plugins/ for a recipe: the one that is named, or the only one if the first argument of
# the recipe is an option or there is none. If there is no such plugin, or none is named and there are several, it fails
# with a list of them, before anything is built or applied.
# Usage: deploy/plugin.sh RECIPE [NAME | option]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
names=()
for file in plugins/*/plugin.yaml; do
    [ ! -e "$file" ] || names+=("$(basename "$(dirname "$file")")")
done
recipe=$1
name=${2:-}
option=
case $name in -*) option=$name name= ;; esac
name=${name#plugins/}
name=${name%/}
if [ -z "$name" ] && [ ${#names[@]} -eq 1 ]; then
    name=${names[0]}
fi
if [ -n "$name" ] && [ -e "plugins/$name/plugin.yaml" ]; then
    echo "$name"
    exit
fi
what="no plugin is named${option:+ before $option}"
[ -z "$name" ] || what="there is no plugin $name"
printf 'error: %s; nothing was changed\n  where: plugins/ has %s\n  next:  name one of these, before any option: ./justw %s NAME\n' \
    "$what" "${names[*]:-no folder with a plugin.yaml}" "$recipe" >&2
exit 1
