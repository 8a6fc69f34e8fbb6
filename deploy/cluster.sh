# Sourced by what needs a cluster: puts kubectl on PATH and points KUBECONFIG at the cluster that is
# meant. That is the one of $KUBECONFIG when the person set it, else the local control plane, which
# is built and started if need be. Says which; $local_cluster is set for the latter.
# Example: . deploy/cluster.sh && kubectl get nodes

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="$root/target/control-plane/bin:$PATH" # ours first: it is of the server's version

if [ -n "${KUBECONFIG:-}" ]; then
    echo "cluster: $(kubectl config current-context 2>/dev/null || echo unknown), from KUBECONFIG=$KUBECONFIG" >&2
    command -v kubectl >/dev/null || "$root/tests/control-plane/build.sh"
else
    local_cluster=yes
    "$root/tests/control-plane/build.sh"
    control-plane status >/dev/null 2>&1 || control-plane up >&2
    export KUBECONFIG="${HOTSHOE_CONTROL_PLANE_DIR:-$root/target/control-plane/default}/kubeconfig"
fi
