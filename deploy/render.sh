#!/usr/bin/env bash
# Prints deploy/install.yaml: everything except the CRDs that a cluster needs to run the host of this version. With
# `objects`, prints deploy/install-objects.yaml: a host that follows Plugin objects, with their CRD.
# Usage: deploy/render.sh VERSION RBAC [objects CRD]
#   RBAC   what `hotshoe rbac` printed
#   CRD    what `hotshoe crd --host` printed
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
host() { sed "s|hotshoe:VERSION|hotshoe:$1|" "$here/host.yaml"; }

if [ "${3:-}" = objects ]; then
    echo '# Generated from what `hotshoe crd --host` and `hotshoe rbac --host-only` print, and deploy/host.yaml by `just crds`; change it there.'
    cat "$4"
    echo ---
    cat "$2"
    echo ---
    # Components that an object names by `file` are those of the image.
    host "$1" | sed -E 's|^( *args: \[run,).* --follow,|\1 --files-dir, /plugins,|; /A component on a mounted volume is activated/d'
else
    echo '# Generated from deploy/rbac.yaml, itself of each plugin.yaml that deploy/host.yaml names, and deploy/host.yaml by `just crds`; change it there.'
    cat "$2"
    echo ---
    host "$1"
fi
