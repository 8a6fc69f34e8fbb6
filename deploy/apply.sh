#!/usr/bin/env bash
# Run by `just apply`: applies the rights and the Plugin objects of these plugins to the cluster of $KUBECONFIG, for a
# host there that follows such objects.
# Usage: deploy/apply.sh NAME of a plugin in plugins/…
# Example: deploy/apply.sh memcached nginx
# Needs kubectl, and the components of the plugins built.
set -euo pipefail

[ $# -ge 1 ] || { echo "usage: $0 NAME…" >&2 && exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/target/control-plane/bin:$PATH"

for name in "$@"; do
    target/release/hotshoe rbac --plugin-only "plugins/$name" | kubectl apply -f - >/dev/null
    kubectl apply -f "plugins/$name/plugin.yaml" >&2
done
