#!/usr/bin/env bash
# Prints deploy/install.yaml: all but the CRDs that a cluster needs to run the host of this version.
# Usage: deploy/render.sh VERSION
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
echo '# Generated from deploy/rbac.yaml and deploy/host.yaml by `just crds`; change it there.'
cat rbac.yaml
echo ---
sed "s|hotshoe:VERSION|hotshoe:$1|" host.yaml
