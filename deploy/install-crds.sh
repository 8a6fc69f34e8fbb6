#!/usr/bin/env bash
# Applies the CRDs in crds/ to the cluster of $KUBECONFIG and waits until the API server serves their kinds.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
kubectl apply -f crds
kubectl wait --for=condition=Established --timeout=60s --recursive=false -f crds
