#!/usr/bin/env bash
# Creates the host's own account in a cluster, and a kubeconfig for it, so that the host runs on this machine
# with the rights that it has in a Pod, and no others. Run it again to renew the token, which is valid for 24 hours.
#
# Usage: deploy/local-account.sh KUBECONFIG_IN KUBECONFIG_OUT [RBAC]
#   KUBECONFIG_IN   the kubeconfig of a user who may apply RBAC
#   KUBECONFIG_OUT  the file to write, readable by its owner alone; its context is hotshoe@CONTEXT_OF_THAT_USER
#   RBAC            what `hotshoe rbac` printed for the plugins of the host; deploy/rbac.yaml, if none is named
# Example: deploy/local-account.sh ~/.kube/config target/run/hotshoe.kubeconfig
# Needs kubectl. Exit code 0: the account's rights hold.
set -euo pipefail

case "${1:-}" in
-h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
esac
[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: $0 KUBECONFIG_IN KUBECONFIG_OUT [RBAC]" >&2 && exit 2; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$2
rbac=${3:-$here/rbac.yaml}
export KUBECONFIG=$1
PATH="$here/../target/control-plane/bin:$PATH"

kubectl apply -f "$rbac" >/dev/null
context=$(kubectl config current-context)
cluster=$(kubectl config view --raw --minify --flatten -o jsonpath='{.clusters[0].cluster}')
token=$(kubectl create token hotshoe --namespace hotshoe-system --duration=24h)

mkdir -p "$(dirname "$out")"
umask 077
cat >"$out.new" <<END
apiVersion: v1
kind: Config
current-context: "hotshoe@$context"
contexts:
- name: "hotshoe@$context"
  context: {cluster: "$context", user: hotshoe}
clusters:
- name: "$context"
  cluster: $cluster
users:
- name: hotshoe
  user: {token: "$token"}
END
mv -f "$out.new" "$out"

# The API server takes a moment to see new bindings. Every host may create Events.
deadline=$((SECONDS + 20))
until kubectl --kubeconfig "$out" auth can-i create events --all-namespaces >/dev/null 2>&1; do
    if [ $SECONDS -ge $deadline ]; then
        printf 'error: the account cannot create events\n  where: %s, as system:serviceaccount:hotshoe-system:hotshoe\n  next:  compare what `hotshoe rbac` prints with what the cluster has: kubectl describe clusterrolebinding hotshoe\n' "$context" >&2
        exit 1
    fi
    sleep 0.2
done
