#!/usr/bin/env bash
# Copies the files of the container image from the products of `just build` into a folder. The Dockerfile
# copies that folder; without a container engine you can look at it and run the host from it.
#   /hotshoe                        static; needs nothing else
#   /plugins/NAME/plugin.yaml, NAME.wasm
# Usage: deploy/image-root.sh FOLDER
# Example: deploy/image-root.sh target/image && target/image/hotshoe run target/image/plugins/memcached
set -euo pipefail

folder=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ ! -e "$folder/hotshoe" ] && [ -n "$(ls -A "$folder")" ]; then
    printf 'error: the folder holds something else\n  where: %s\n  next:  name a new or an empty one\n' "$folder" >&2
    exit 1
fi

rm -rf "$folder/hotshoe" "$folder/plugins"
install -m 0755 target/release/hotshoe "$folder/hotshoe"
strip --strip-debug "$folder/hotshoe" # saves three quarters of the size; the names in backtraces stay
chmod 0555 "$folder/hotshoe"
for plugin in plugins/*/plugin.yaml; do
    name=$(basename "$(dirname "$plugin")")
    install -D -m 0444 "$plugin" "$folder/plugins/$name/plugin.yaml"
    component=plugins/$name/$name.wasm # as for hosts, a component beside plugin.yaml comes first
    [ -e "$component" ] || component=target/plugins/$name.wasm
    install -m 0444 "$component" "$folder/plugins/$name/$name.wasm"
done
