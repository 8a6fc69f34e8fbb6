#!/usr/bin/env bash
# Run by `just apply`: applies the rights and the Plugin objects of these plugins to the cluster of $KUBECONFIG, for a
# host there that follows such objects.
# Usage: deploy/apply.sh [--webhooks] NAME of a plugin in plugins/…
#   --webhooks   also the rights of the host to register the webhooks of these plugins
# Example: deploy/apply.sh memcached nginx
# Needs kubectl, and the components of the plugins built.
set -euo pipefail

webhooks=
[ "${1:-}" != --webhooks ] || { webhooks=$1 && shift; }
[ $# -ge 1 ] || { echo "usage: $0 [--webhooks] NAME…" >&2 && exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/target/control-plane/bin:$PATH"

for name in "$@"; do
    target/release/hotshoe rbac --plugin-only $webhooks "plugins/$name" | kubectl apply -f - >/dev/null
    kubectl apply -f "plugins/$name/plugin.yaml" >&2
done
