#!/usr/bin/env bash
# Prints the name of a plugin in plugins/: the one that is named, or the only one. If there is no such
# plugin, or none is named and there are several, it fails with a list of them, before anything is built or applied.
# Usage: deploy/plugin.sh [NAME]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
names=()
for file in plugins/*/plugin.yaml; do
    [ ! -e "$file" ] || names+=("$(basename "$(dirname "$file")")")
done
name=${1:-}
name=${name#plugins/}
name=${name%/}
if [ -z "$name" ] && [ ${#names[@]} -eq 1 ]; then
    name=${names[0]}
fi
if [ -n "$name" ] && [ -e "plugins/$name/plugin.yaml" ]; then
    echo "$name"
    exit
fi
what='no plugin is named'
[ -z "$name" ] || what="there is no plugin $name"
printf 'error: %s; nothing was changed\n  where: plugins/ has %s\n  next:  name one of these, such as `just run NAME`\n' \
    "$what" "${names[*]:-no folder with a plugin.yaml}" >&2
exit 1
