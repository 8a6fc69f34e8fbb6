#!/usr/bin/env bash
# What `just demo` does: Hotshoe from nothing to a plugin that is swapped while it works, on a real
# control plane. Each step says what happens, prints the command that does it, and waits, with a
# deadline, until it is seen to have happened; a step that does not fails the demo.
#
# It uses the cluster of $KUBECONFIG when that is set, else a control plane of its own. KEEP=1 leaves
# everything running. The plugin is changed in a copy, target/demo: your working tree stays as it is.
# Needs what `just build` and tests/control-plane/build.sh make. Exit code 0: all was seen.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
demo=target/demo
log=$demo/hotshoe.log
plugin=$demo/plugins/memcached
namespace=hotshoe-demo
sample=memcached-sample
patience=60 # seconds that anything may take
background=()
host=
PATH="$PWD/target/release:$PWD/target/control-plane/bin:$PATH"

bold= dim= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
fi

# === how it tells ===

step=0
step() {
    step=$((step + 1))
    printf '\n%s━━━ %d. %s%s\n' "$bold" $step "$1" "$plain"
}

say() { printf '%s\n' "$@"; }

# Prints a command as one would type it.
show() {
    local word line=
    for word in "$@"; do
        [[ $word == *[!A-Za-z0-9_./:=@,!-]* ]] && word="'$word'"
        line+=" $word"
    done
    printf '%s$%s%s\n' "$bold" "$line" "$plain"
}

# Prints a command and runs it.
run() {
    show "$@"
    "$@" 2>&1 | sed 's/^/    /'
}

# Prints what a kind's objects become, as they become it; a column is a path into the object.
follow() {
    local kind=$1 columns=ADDED:.type column
    for column in $2; do columns+=,$column:.object.$column; done
    shift 2
    kubectl get "$kind" --watch --output-watch-events --no-headers -o "custom-columns=$columns" "$@" 2>/dev/null |
        sed -u "s/^/$dim    │ $(printf '%-10s' "$kind") /; s/\$/$plain/" &
    background+=($!)
}

fail() {
    printf '\nerror: %s\n  where: step %d of the demo\n  next:  read the log of the host: %s\n' "$1" $step "$log" >&2
    [ ! -e "$log" ] || tail -n 15 "$log" | sed 's/^/    /' >&2
    exit 1
}

# Waits until a command prints what matches a pattern.
await() {
    local what=$1 pattern=$2 deadline=$((SECONDS + patience)) seen
    shift 2
    until seen=$("$@" 2>&1) && [[ $seen == $pattern ]]; do
        [ $SECONDS -lt $deadline ] || fail "$what: not within $patience s; seen last: ${seen:-nothing}"
        [ -z "$host" ] || kill -0 "$host" 2>/dev/null || fail "the host has ended while this was awaited: $what"
        sleep 0.2
    done
}

# One field of one object.
field() { kubectl get "$1" "$2" -o "jsonpath=$3"; }

available='status.conditions[?(@.type=="Available")]'
says() { field memcached $sample "{.$available.message}"; }

count_pods() { kubectl get pods -o name | wc -l; }

# === what it leaves ===

clean_up() {
    local code=$?
    trap - EXIT
    for job in "${background[@]}"; do kill "$job" 2>/dev/null || true; done
    if [ $code -eq 0 ] && [ -n "${KEEP:-}" ]; then
        exit 0
    fi
    if [ -n "$host" ]; then
        kill "$host" 2>/dev/null || true
        wait "$host" 2>/dev/null || true
    fi
    if [ -n "${local_cluster:-}" ]; then
        control-plane down >/dev/null 2>&1 || true
    fi
    exit $code
}
trap clean_up EXIT

# === the demo ===

rm -rf "$demo"
mkdir -p "$demo/plugins/target/guests"

step 'A Kubernetes control plane'
if [ -z "${KUBECONFIG:-}" ]; then
    say 'etcd, kube-apiserver, kube-controller-manager and kube-scheduler as upstream builds them, on' \
        'loopback. Pods are simulated: they become Ready, but no container runs. By hand: just up'
    export HOTSHOE_CONTROL_PLANE_DIR=$PWD/$demo/control-plane
    [ -n "${KEEP:-}" ] || owner="--owner-pid $$"
    local_cluster=yes
    run control-plane up ${owner:-}
fi
. deploy/cluster.sh
person=$KUBECONFIG
kubectl create namespace $namespace --dry-run=client -o yaml | kubectl apply -f - >/dev/null

# Every command below means the namespace of the demo.
export KUBECONFIG=$PWD/$demo/kubeconfig
KUBECONFIG=$person kubectl config view --raw --minify --flatten >"$KUBECONFIG"
chmod 600 "$KUBECONFIG"
kubectl config set-context --current --namespace $namespace >/dev/null
run kubectl get nodes

step 'The kind Memcached, and an account for the host'
say 'The host is no administrator: it watches, and what it writes it writes as the account of the' \
    'plugin. So it cannot create a Deployment itself. By hand: just install'
run kubectl apply -f crds
kubectl wait --for=condition=Established --timeout=${patience}s --recursive=false -f crds >/dev/null
run deploy/local-account.sh "$KUBECONFIG" "$demo/hotshoe.kubeconfig"
run kubectl auth whoami --kubeconfig "$demo/hotshoe.kubeconfig" -o jsonpath='{.status.userInfo.username}{"\n"}'
show kubectl auth can-i create deployments --kubeconfig "$demo/hotshoe.kubeconfig"
may=$(kubectl auth can-i create deployments --kubeconfig "$demo/hotshoe.kubeconfig" || true)
say "    $may"
[ "$may" = no ] || fail 'the host may create Deployments under its own account'

step 'The host, with the Memcached plugin'
say 'The plugin is a WebAssembly component: a pure function without network, files or clock, that' \
    'gets what was observed and answers what should be. By hand: just run'
# A copy, to be changed below, with what was compiled: dependencies are not compiled again, and the
# products of the copy never pass for those of the working tree.
tar -C plugins --exclude=./target -cf - . | tar -C "$demo/plugins" -xf -
cp -R wit "$demo/wit"
cp -a target/guests/release target/guests/wasm32-unknown-unknown "$demo/plugins/target/guests/"
cp target/plugins/memcached.wasm "$plugin/memcached.wasm"
export MEMCACHED_IMAGE="${MEMCACHED_IMAGE-memcached:1.4.36-alpine}"
command=(hotshoe run --namespace $namespace --kubeconfig "$demo/hotshoe.kubeconfig" --listen 127.0.0.1:0 "$plugin")
show "${command[@]}"
"${command[@]}" >"$log" 2>&1 &
host=$!
await 'the host serves its status' '*http://*' grep -o 'on http://.*' "$log"
HOTSHOE_LISTEN=$(sed -n 's|.* on http://||p' "$log" | head -n 1)
export HOTSHOE_LISTEN
await 'the host is ready' '*' hotshoe status
sed 's/^/    /' "$log"
run hotshoe status

step 'A Memcached'
say 'One object, and the host makes a Deployment and a Service of it, and tells in its status what it' \
    'observes. What follows are the objects, as they arrive.'
follow memcached "metadata.name spec.size $available.status $available.message"
follow deployment 'metadata.name spec.replicas status.readyReplicas'
follow pod 'metadata.name status.phase'
follow event 'involvedObject.kind reason message' --field-selector involvedObject.kind!=Pod,involvedObject.kind!=ReplicaSet
run kubectl apply -f crds/samples/cache_v1alpha1_memcached.yaml
await 'the Memcached is available' '*with 1 replicas created successfully' says
run kubectl get memcached,deployment,service,pod
run kubectl get memcached $sample -o jsonpath='{range .status.conditions[*]}{.type}={.status}  {.reason}: {.message}{"\n"}{end}'

step 'Another size'
run kubectl patch memcached $sample --type merge --patch '{"spec":{"size":2}}'
await 'two servers are ready' '*with 2 replicas created successfully' says
run kubectl get memcached $sample

step 'A drift'
say 'Somebody scales the Deployment by hand. The field is the plugin'\''s, so it is put back.'
run kubectl scale deployment $sample --replicas=3
await 'the Deployment is put back' 2 field deployment $sample '{.spec.replicas}'
await 'two servers are ready again' '*with 2 replicas created successfully' says
await 'the third Pod is gone' 2 count_pods
run kubectl get deployment $sample

step 'Another plugin, while the host runs'
say 'The logic gets a log line and another message, is compiled, and slid in: no restart, no watch' \
    'opened again, no Pod touched. By hand: change plugins/memcached/src, then just reload'
pods=$(kubectl get pods -o name | sort)
sed -i.old '/let observed = /a\    hotshoe_sdk::info!("the new plugin decides on {}", request.name());' "$plugin/src/reconcile.rs"
sed -i.old 's/replicas created successfully/replicas created successfully, says the new plugin/' "$plugin/src/status.rs" "$plugin"/cases/*.yaml
rm "$plugin"/cases/*.old
for file in reconcile.rs status.rs; do
    diff -U0 --label "$file" --label "$file" "$plugin/src/$file.old" "$plugin/src/$file" | sed 's/^/    /' || true
done
run hotshoe build "$plugin" --out "$plugin/memcached.wasm"
rm -rf "$demo/plugins/target"
run hotshoe reload memcached
await 'the new plugin says so in the status' '*says the new plugin' says
await 'the new plugin says so in the log' '*the new plugin decides*' grep 'the new plugin decides' "$log"
run kubectl get memcached $sample -o jsonpath="{.$available.message}{\"\n\"}"
run grep -m 1 'the new plugin decides' "$log"
[ "$(kubectl get pods -o name | sort)" = "$pods" ] || fail 'the Pods are not those of before'

step 'The end of the Memcached'
say 'The plugin has a finalizer, so that it can say its last word. Then the garbage collector takes the' \
    'children; of a kind as young as this one it learns within half a minute.'
run kubectl delete memcached $sample --timeout=${patience}s
await 'its children are gone' '' kubectl get deployment,service,pod --output name
await 'its Event is there' '*is being deleted from the namespace*' kubectl get events --field-selector involvedObject.kind=Memcached -o 'jsonpath={.items[*].message}'
run kubectl get events --field-selector involvedObject.kind=Memcached

step 'What is left'
if [ -n "${KEEP:-}" ]; then
    say "The host runs on (its log: $log). To look around:" \
        "    export KUBECONFIG=$KUBECONFIG HOTSHOE_LISTEN=$HOTSHOE_LISTEN" \
        '    just status' \
        'To end it:' \
        "    kill $host"
    [ -z "${local_cluster:-}" ] || say "    $(command -v control-plane) down --dir $PWD/$demo/control-plane"
else
    kubectl delete namespace $namespace --wait=false >/dev/null
    say 'Nothing runs any more. To go on by hand, with a control plane that stays:' \
        '    just up' \
        '    just run' \
        "    just kubectl apply -f crds/samples/cache_v1alpha1_memcached.yaml    # in another terminal"
    [ -n "${local_cluster:-}" ] || say 'The CRD and the accounts are still in the cluster: just undeploy removes them.'
fi
printf '\nEverything was seen to happen, in %d s.\n' $SECONDS
