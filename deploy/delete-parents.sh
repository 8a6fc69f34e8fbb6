#!/usr/bin/env bash
# Deletes every object of the CRDs in crds/ from the cluster of $KUBECONFIG, and waits until the host has removed their
# finalizers: without a host these would keep the objects, and so the CRDs, for ever.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Plugins last: each may stay until its parents are gone.
crds=$(kubectl get --ignore-not-found -o jsonpath='{range .items[*]}{.metadata.name}{" "}{end}{.metadata.name}' -f crds)
for crd in ${crds//plugins.hotshoe.dev/} $(grep -o "plugins.hotshoe.dev" <<<"$crds"); do
    kubectl delete "$crd" --all --all-namespaces --timeout=60s && continue
    printf 'error: not every object of %s was finished within 60 s\n  where: %s\n  next:  a host must run to finish them: start one (`./justw host`) and try again; `kubectl describe %s -A` says what holds them\n' \
        "$crd" "$(kubectl config current-context)" "${crd%%.*}" >&2
    exit 1
done
