# shellcheck shell=bash disable=SC2034,SC2088 # what sources it reads its variables; a path in a message
# Sourced by scripts that need a cluster: puts kubectl on PATH, points KUBECONFIG at the chosen cluster, and
# prints which one that is before anything is done to it. The cluster is
#
#   the one that $HOTSHOE_CLUSTER names (CLUSTER=… of a recipe): `local`, `current`, or the name of a context
#   else the current context of $KUBECONFIG, if that is set
#   else, if ~/.kube/config has a current context, that one or the local control plane: on a terminal the user is asked
#   once, and the answer is kept in target/cluster until the current context changes; a script has to name one
#   else the local control plane, which is built and started if need be
#
# $local_cluster is set for the local control plane. If $deploys is set, a note says first that it runs no containers.
# Example: . deploy/cluster.sh && kubectl get nodes

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="$root/target/control-plane/bin:$PATH" # ours first: it has the server's version
answered=$root/target/cluster

cluster_error() {
    printf 'error: %s; nothing was changed\n  where: %s\n  next:  %s\n' "$1" "$2" "$3" >&2
    exit 1
}

# Without kubectl, which may not be built yet, reads the key at the left margin.
current_context() {
    if command -v kubectl >/dev/null; then
        kubectl config current-context 2>/dev/null || true
    else
        sed -n 's/^current-context: *"\{0,1\}\([^"]*\)"\{0,1\} *$/\1/p' "${KUBECONFIG:-${HOME:-}/.kube/config}" 2>/dev/null | head -1
    fi
}

use_local() {
    local_cluster=yes
    [ -z "${deploys:-}" ] || printf 'note: %s\n  next: %s\n' \
        'the local control plane runs no containers: what is deployed there is stored, and nothing decides' \
        '`./justw host` starts a host on this machine for it; `./justw deploy CLUSTER=CONTEXT` deploys to a cluster of your kubeconfig' >&2
    "$root/tests/control-plane/build.sh"
    control-plane status >/dev/null 2>&1 || control-plane up >&2
    export KUBECONFIG="${HOTSHOE_CONTROL_PLANE_DIR:-$root/target/control-plane/default}/kubeconfig"
    echo "cluster: the local control plane at $(server), $1" >&2
}

# Usage: use_context NAME WHY
use_context() {
    command -v kubectl >/dev/null || "$root/tests/control-plane/build.sh"
    local config=${KUBECONFIG:-${HOME:-}/.kube/config}
    [ -n "$1" ] || cluster_error 'no current context is set' "$config" '`kubectl config use-context NAME`, or name a context: CLUSTER=NAME; CLUSTER=local is the local control plane'
    if ! kubectl config get-contexts "$1" >/dev/null 2>&1; then
        local known
        known=$(kubectl config get-contexts -o name | tr '\n' ' ')
        [ -n "$known" ] || cluster_error "there is no context $1" "$config has no context" 'name the file that has it with KUBECONFIG, or CLUSTER=local for the local control plane'
        cluster_error "there is no context $1" "$config has $known" 'name one of these, or CLUSTER=local for the local control plane'
    fi
    if [ "$1" = "$(current_context)" ]; then
        export KUBECONFIG=$config
    else
        mkdir -p "$root/target/run"
        (umask 077 && kubectl config view --raw --flatten --minify --context="$1" >"$root/target/run/context.kubeconfig")
        export KUBECONFIG=$root/target/run/context.kubeconfig
    fi
    echo "cluster: $1 at $(server), $2" >&2
}

server() {
    kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}' 2>/dev/null || echo 'an unknown server'
}

# Usage: ask_which CONTEXT
ask_which() {
    local answer='' about=''
    [ ! -e "$answered" ] || read -r answer about <"$answered" || true
    if [ "$about" != "$1" ] || [ -z "$answer" ]; then
        [ -t 0 ] && [ -t 2 ] || cluster_error 'it is not named which cluster is meant' \
            "~/.kube/config has the current context $1; there is the local control plane as well" \
            'CLUSTER=current for the former, CLUSTER=local for the latter, such as `./justw run NAME CLUSTER=local`; or set HOTSHOE_CLUSTER, or KUBECONFIG'
        printf 'Which cluster is meant?\n  1  %s, the current context of ~/.kube/config\n  2  the local control plane, which runs no containers\n1 or 2? ' "$1" >&2
        read -r answer
        case $answer in
        1) answer=current ;;
        2) answer=local ;;
        *) cluster_error 'neither 1 nor 2' 'the answer' 'try again, or name it: CLUSTER=current, CLUSTER=local' ;;
        esac
        mkdir -p "$root/target"
        echo "$answer $1" >"$answered"
    fi
    local why='as you answered; remove target/cluster to be asked again, or name another with CLUSTER='
    if [ "$answer" = local ]; then use_local "$why"; else use_context "$1" "$why"; fi
}

case ${HOTSHOE_CLUSTER:-} in
local) use_local 'as named' ;;
current) use_context "$(current_context)" 'the current context' ;;
?*) use_context "$HOTSHOE_CLUSTER" 'as named' ;;
'')
    context=$(current_context)
    if [ -n "${KUBECONFIG:-}" ]; then
        use_context "$context" "from KUBECONFIG=$KUBECONFIG"
    elif [ -n "$context" ]; then
        ask_which "$context"
    else
        use_local 'for ~/.kube/config has no current context'
    fi
    ;;
esac
