#!/usr/bin/env bash
# Writes the types of hotshoe_sdk::apply into a folder, from the OpenAPI document of the Kubernetes version that
# the local control plane is built from.
# Usage: plugins/apply-codegen/generate.sh FOLDER
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$root/tests/control-plane"
kubernetes=$(go mod download -json k8s.io/kubernetes | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cd "$root/plugins"
cargo run --quiet --locked --target-dir ../target/guests -p apply-codegen -- \
    "$kubernetes/api/openapi-spec/swagger.json" "$folder"
for file in "$folder"/*_v*.rs; do rustfmt --edition 2024 --config-path "$root/rustfmt.toml" "$file"; done
