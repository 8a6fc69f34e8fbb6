#!/usr/bin/env bash
# Prints deploy/install.yaml: all but the CRDs that a cluster needs to run the host of this version.
# Usage: deploy/render.sh VERSION [RBAC]
#   RBAC   what `hotshoe rbac` printed; deploy/rbac.yaml, if none is named
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
echo '# Generated from deploy/rbac.yaml, itself of each plugin.yaml that deploy/host.yaml names, and deploy/host.yaml by `just crds`; change it there.'
cat "${2:-$here/rbac.yaml}"
echo ---
sed "s|hotshoe:VERSION|hotshoe:$1|" "$here/host.yaml"
