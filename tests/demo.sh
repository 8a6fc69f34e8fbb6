#!/usr/bin/env bash
# What `just demo` does: Hotshoe from nothing to a plugin that is replaced while the host runs, and to one
# that misbehaves and is rolled back, on a real control plane. Each step says what happens, prints the
# command that does it, and waits, with a deadline, until it is seen to have happened; a step that does
# not fails the demo.
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
webhooks= # the option for their rights, where the API server reaches this machine
PATH="$PWD/target/release:$PWD/target/control-plane/bin:$PATH"

bold='' dim='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
fi

# === output ===

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
    "$@" 2>&1 | tee "$demo/said" | sed 's/^/    /'
}

# Prints a command and runs it; it is to end with this exit code.
run_to() {
    local wanted=$1 code=0
    shift
    run "$@" || code=$?
    [ $code = "$wanted" ] || fail "exit code $code instead of $wanted: $*"
    say "    (exit code $code)"
}

# What the command before printed must match a pattern.
said() { [[ $(<"$demo/said") == *"$1"* ]] || fail "the command before did not say: $1"; }

# Changes a file of the plugin's copy with a script for sed, and shows how.
edit() {
    local file=$plugin/$1 changed=0
    cp "$file" "$demo/before"
    sed -i.old "$2" "$file"
    rm "$file.old"
    diff -U0 --label "$1" --label "$1" "$demo/before" "$file" | sed 's/^/    /' || changed=1
    [ $changed = 1 ] || fail "$file is not what this demo changes"
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

# Prints the objects and Events of the demo, as they arrive.
follow_all() {
    follow memcached "metadata.name spec.size $available.status $available.message"
    follow deployment 'metadata.name spec.replicas status.readyReplicas'
    follow pod 'metadata.name status.phase'
    follow event 'involvedObject.kind reason message' --field-selector involvedObject.kind!=Pod,involvedObject.kind!=ReplicaSet
}

# Ends that, where there would be too much of it.
unfollow() {
    kill "${background[@]}" 2>/dev/null || true
    background=()
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
    # shellcheck disable=SC2053 # it is a pattern
    until seen=$("$@" 2>&1) && [[ $seen == $pattern ]]; do
        [ $SECONDS -lt $deadline ] || fail "$what: not within $patience s; seen last: ${seen:-nothing}"
        [ -z "$host" ] || kill -0 "$host" 2>/dev/null || fail "the host has ended while this was awaited: $what"
        sleep 0.2
    done
}

# The component that decides, by the digits that people compare.
decides() { hotshoe status | awk '$1 == "memcached" { print $4 }'; }

# Gives a plugin its account and the rights of its grant.
grant() {
    show hotshoe rbac --plugin-only $webhooks "$1"
    hotshoe rbac --plugin-only $webhooks "$1" | kubectl apply -f - >/dev/null
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
        'loopback. Pods are simulated: they become Ready, but no container runs. By hand: ./justw up'
    export HOTSHOE_CONTROL_PLANE_DIR=$PWD/$demo/control-plane
    [ -n "${KEEP:-}" ] || owner="--owner-pid $$"
    local_cluster=yes webhooks=--webhooks
    run control-plane up ${owner:-}
    export HOTSHOE_CLUSTER=local
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

step 'The kinds Plugin and Memcached, and an account for the host'
say 'The host is no administrator: it watches, and what it writes it writes as the account of the' \
    'plugin. So it cannot create a Deployment itself. By hand: ./justw install'
run kubectl apply -f crds
kubectl wait --for=condition=Established --timeout=${patience}s --recursive=false -f crds >/dev/null
show hotshoe rbac --host-only $webhooks
hotshoe rbac --host-only $webhooks >"$demo/rbac.yaml"
run deploy/local-account.sh "$KUBECONFIG" "$demo/hotshoe.kubeconfig" "$demo/rbac.yaml"
run kubectl auth whoami --kubeconfig "$demo/hotshoe.kubeconfig" -o jsonpath='{.status.userInfo.username}{"\n"}'
show kubectl auth can-i create deployments --kubeconfig "$demo/hotshoe.kubeconfig"
may=$(kubectl auth can-i create deployments --kubeconfig "$demo/hotshoe.kubeconfig" || true)
say "    $may"
[ "$may" = no ] || fail 'the host may create Deployments under its own account'

step 'The host'
say 'It is installed once, and follows the Plugin objects of the cluster. There is none yet. By hand: ./justw host'
# A copy, to be changed below, with what was compiled: dependencies are not compiled again, and the
# products of the copy never pass for those of the working tree.
tar -C plugins --exclude=./target -cf - . | tar -C "$demo/plugins" -xf -
cp -R wit "$demo/wit"
mkdir "$demo/host"
cp -R host/crd "$demo/host/crd"
cp -a target/guests/release target/guests/wasm32-unknown-unknown "$demo/plugins/target/guests/"
cp target/plugins/memcached.wasm "$plugin/memcached.wasm"
export MEMCACHED_IMAGE="${MEMCACHED_IMAGE-memcached:1.6-alpine}"
# A cache of its own: the host remembers there what it rolled back, and would not activate it again.
export HOTSHOE_SOCKET=$PWD/$demo/run/host.sock
command=(hotshoe run --kubeconfig "$demo/hotshoe.kubeconfig" --cache "$demo/cache" --listen 127.0.0.1:0 --files-dir "$demo")
if [ -n "$webhooks" ]; then
    command+=(--webhooks 127.0.0.1:0 --webhooks-url https://127.0.0.1)
else
    command+=(--namespace "$namespace")
fi
show "${command[@]}"
"${command[@]}" >"$log" 2>&1 &
host=$!
await 'the host is ready' '*' hotshoe status
sed 's/^/    /' "$log"

step 'A Plugin'
say 'A plugin is a WebAssembly component: a pure function without network, files or clock, that gets what was' \
    'observed and answers what should be. Its Plugin object says what it may do, and where the component is: in a' \
    'registry, in a ConfigMap or, here, in a file that the host follows. By hand: ./justw apply'
grant "$plugin"
run kubectl apply -f "$plugin/plugin.yaml"
run kubectl wait plugin/memcached --for=condition=Ready --timeout=${patience}s
run kubectl get plugins
run hotshoe status

step 'A Memcached'
say 'One object, and the host makes a Deployment and a Service of it, and reports in its status what it' \
    'observes. What follows are the objects, as they arrive.'
follow_all
run kubectl apply -f crds/samples/cache_v1alpha1_memcached.yaml
await 'the Memcached is available' '*with 1 replicas created successfully' says
run kubectl get memcached,deployment,service,pod
run kubectl get memcached $sample -o jsonpath='{range .status.conditions[*]}{.type}={.status}  {.reason}: {.message}{"\n"}{end}'

step 'Another size'
run kubectl patch memcached $sample --type merge --patch '{"spec":{"size":2}}'
await 'two servers are ready' '*with 2 replicas created successfully' says
run kubectl get memcached $sample

step 'A drift'
say 'A user scales the Deployment by hand. The plugin sets this field, so it is put back.'
run kubectl scale deployment $sample --replicas=3
await 'the Deployment is put back' 2 field deployment $sample '{.spec.replicas}'
await 'two servers are ready again' '*with 2 replicas created successfully' says
await 'the third Pod is gone' 2 count_pods
run kubectl get deployment $sample

step 'What another plugin would change'
say 'The logic gets a log line and another message. The running host asks the new component about every' \
    'Memcached in the cluster, beside the active one, and shows the difference. Nothing is written.' \
    'By hand: change plugins/memcached/src, then ./justw shadow (or ./justw reload --dry-run)'
first=$(decides)
edit src/reconcile.rs '/let observed = /a\
    hotshoe_sdk::info!("the new plugin decides on {}", request.name());'
edit src/status.rs 's/replicas created successfully/replicas created successfully, says the new plugin/'
# Its cases are changed with it, as its author would.
sed -i.old 's/replicas created successfully/&, says the new plugin/' "$plugin"/cases/*.yaml
rm "$plugin"/cases/*.old
run hotshoe build "$plugin" --out "$demo/new.wasm"
run_to 3 hotshoe shadow memcached "$demo/new.wasm"
said '1 would change'
said 'says the new plugin'
[ "$(decides)" = "$first" ] || fail 'another component decides'
[[ $(says) != *'says the new plugin'* ]] || fail 'the shadow has written'

step 'Another plugin, while the host runs'
say 'Now it is activated: no restart, no watch opened again, no Pod touched. By hand: ./justw reload'
pods=$(kubectl get pods -o name | sort)
run mv "$demo/new.wasm" "$plugin/memcached.wasm"
run hotshoe reload memcached # which waits until it is, or says why not
await 'the new plugin says so in the status' '*says the new plugin' says
await 'the new plugin says so in the log' '*the new plugin decides*' grep 'the new plugin decides' "$log"
run kubectl get memcached $sample -o jsonpath="{.$available.message}{\"\n\"}"
run grep -m 1 'the new plugin decides' "$log"
[ "$(kubectl get pods -o name | sort)" = "$pods" ] || fail 'the Pods are not those of before'
second=$(decides)
[ "$second" != "$first" ] || fail 'the same component decides'

step 'A plugin that would delete what is there'
say 'The author forgets the Service. The cases of the plugin say so when it is built, and the author ignores it.' \
    'But the host asks every new component about every Memcached first. This one would delete children' \
    'of more than 10 in 100, so it requires approval, and the active one stays.' \
    'By hand: ./justw shadow to see it all, ./justw reload, and hotshoe approve if you mean it'
cp "$plugin/src/children.rs" "$demo/children.rs"
edit src/children.rs 's/let service = /let _service = /
s/\[deployment.into(), service.into()\]/[deployment.into()]/
s/\[Object; 2\]/[Object; 1]/'
run hotshoe build "$plugin" --out "$plugin/memcached.wasm"
run_to 1 hotshoe reload memcached
said 'not activated: '
said ': ApprovalRequired: '
said 'it would delete children of 1 of 1 parents'
run kubectl get service $sample-service
[ "$(decides)" = "$second" ] || fail 'another component decides'
mv "$demo/children.rs" "$plugin/src/children.rs"

step 'A plugin that misbehaves'
say 'The next one has a log line for which it knows three words. It does well on all that is there, so it' \
    'is activated. Then a user asks for a fourth server. By hand: ./justw reload, and hotshoe status to watch'
cp "$plugin/src/reconcile.rs" "$demo/reconcile.rs"
edit src/reconcile.rs '/let observed = /a\
    let count = ["one", "two", "three"][request.parent.spec.size as usize - 1];\
    hotshoe_sdk::info!("{} has {count}", request.name());'
run hotshoe build "$plugin" --out "$plugin/memcached.wasm"
run hotshoe reload memcached
third=$(decides)
[ "$third" != "$second" ] || fail 'the same component decides'
run kubectl patch memcached $sample --type merge --patch '{"spec":{"size":4}}'
say 'It traps, which costs this one decision: no child is written, an Event and a condition say why. The host' \
    'tries again, at longer and longer intervals. After five failures, where the component before had none, it' \
    'rolls back by itself: in about 15 seconds.'
await 'the host rolls back' "$second" decides
await 'four servers are ready' '*with 4 replicas created successfully, says the new plugin' says
run grep -m 1 'ERROR.*RolledBack' "$log"
run kubectl get memcached $sample
say 'The Events say which component they are of.'
run kubectl get events --field-selector reason=Trapped -o 'custom-columns=REASON:.reason,COUNT:.count,COMPONENT:.metadata.annotations.hotshoe\.dev/digest,MESSAGE:.message'
said "$third"

step 'What was'
say 'The file still has the component that misbehaved. The host does not activate it again without' \
    '`hotshoe approve`; a fixed one is another component. By hand: hotshoe status, hotshoe history, hotshoe rollback'
run_to 1 hotshoe reload memcached
said 'RolledBack'
run hotshoe status
said "not activated: $third"
run hotshoe history memcached
[ "$(grep -c "$second .* Activated" "$demo/said")" = 2 ] || fail 'the history does not have the return'
[[ $(grep '^\*' "$demo/said") == *"$second"* ]] || fail 'the history does not mark the component that decides'
grep -q "$third .* RolledBack .* calls failed" "$demo/said" || fail 'the history does not say why the third was rolled back'
say 'An administrator can do the same: back to the very first, to see it once more.'
run hotshoe rollback memcached --to "$first"
await 'the first plugin says what it said' '*with 4 replicas created successfully' says
run kubectl get memcached $sample -o jsonpath="{.$available.message}{\"\n\"}"

step 'The end of the Memcached'
say 'The plugin has a finalizer, so that it can clean up first. Then the garbage collector deletes the' \
    'children; of a kind as young as this one it learns within half a minute.'
run kubectl delete memcached $sample --timeout=${patience}s
await 'its children are gone' '' kubectl get deployment,service,pod --output name
await 'its Event is there' '*is being deleted from the namespace*' kubectl get events --field-selector involvedObject.kind=Memcached -o 'jsonpath={.items[*].message}'
run kubectl get events --field-selector involvedObject.kind=Memcached

if [ -n "$webhooks" ]; then
    step 'Several versions of a kind'
    say 'What v1beta1 calls replicas is size in v1, which is stored. A function of the plugin converts, and the host' \
        'has registered it in the CRD.'
    await 'v1beta1 is served' '*' kubectl get memcacheds.v1beta1.cache.example.com
    run kubectl apply -f crds/samples/cache_v1beta1_memcached.yaml
    run kubectl get memcacheds.v1.cache.example.com memcached-with-metrics -o jsonpath='{.apiVersion} {.spec}{"\n"}'
    said '"size":2'
    run kubectl get memcacheds.v1beta1.cache.example.com memcached-with-metrics -o jsonpath='{.apiVersion} {.spec}{"\n"}'
    said '"name":"metrics"'
    said '"replicas":2'

    step 'Nonsense is refused, defaults are filled in'
    say 'The API server asks the plugin before it stores an object, as soon as spec.admission says so. The rules are' \
        'those of the tutorial: an odd size, and 1 if none is there.'
    rules='{"spec":{"admission":"Enforce","config":{"values":{"validation":["oddSize"],"defaulting":true}}}}'
    run kubectl patch plugin memcached --type merge --patch "$rules"
    printf 'apiVersion: cache.example.com/v1\nkind: Memcached\nmetadata: {name: even}\nspec: {size: 2}\n' >"$demo/even.yaml"
    printf 'apiVersion: cache.example.com/v1\nkind: Memcached\nmetadata: {name: odd}\nspec: {}\n' >"$demo/odd.yaml"
    refused() { kubectl create --dry-run=server -f "$demo/even.yaml" >"$demo/refused" 2>&1 || cat "$demo/refused"; }
    await 'an even size is refused' '*odd number*' refused
    run_to 1 kubectl apply -f "$demo/even.yaml"
    said 'spec.size: Cluster size must be an odd number'
    say 'A dry run says what the plugin would write: names and fields, never values.'
    run kubectl apply --dry-run=server -f "$demo/odd.yaml"
    said "would create Deployment $namespace/odd"
    run kubectl apply -f "$demo/odd.yaml"
    run kubectl get memcached odd -o jsonpath='{.spec.size}{"\n"}'
    said 1
    say 'What kubectl scale and autoscalers set is judged by the same rule.'
    run_to 1 kubectl scale memcached odd --replicas 4
    said 'spec.size: Cluster size must be an odd number'

    step 'Another rule, while objects are created'
    say 'The rule is part of the component, and is replaced with it. Another terminal goes on creating objects: each is' \
        'decided by the old rule or by the new one, and none fails.'
    mv "$demo/reconcile.rs" "$plugin/src/reconcile.rs"
    edit src/admission.rs 's/Cluster size must be an odd number/Even sizes split the brain/'
    sed -i.old 's/Cluster size must be an odd number/Even sizes split the brain/' "$plugin"/cases/*.yaml
    rm "$plugin"/cases/*.old
    create() {
        local number=0
        while [ ! -e "$demo/swapped" ]; do
            number=$((number + 1))
            printf 'apiVersion: cache.example.com/v1\nkind: Memcached\nmetadata: {name: n%d}\nspec: {size: 1}\n' $number |
                kubectl create -f - >>"$demo/created" 2>&1 || touch "$demo/failed"
        done
    }
    run hotshoe build "$plugin" --out "$demo/new.wasm"
    unfollow
    create &
    creating=$!
    background+=("$creating")
    run mv "$demo/new.wasm" "$plugin/memcached.wasm"
    run hotshoe reload memcached
    run_to 1 kubectl apply -f "$demo/even.yaml"
    said 'spec.size: Even sizes split the brain'
    touch "$demo/swapped"
    wait $creating
    say "    $(wc -l <"$demo/created") were created meanwhile"
    [ ! -e "$demo/failed" ] || fail "a creation failed: $(tail -n 1 "$demo/created")"
    show kubectl delete memcached --all
    kubectl delete memcached --all --timeout=${patience}s >/dev/null
    await 'their children are gone' '' kubectl get deployment,service,pod --output name
    follow_all
fi
rm -rf "$demo/plugins/target"

step 'Three operators in one host: Rust, Python and JavaScript'
say 'Beside Memcached, the nginx operator in Python, and one in JavaScript that is not there yet: `hotshoe new`' \
    'makes a complete project of it. Both are added to the host that runs; each writes as an account of its own.'
operator=$demo/operator
run hotshoe new shop --yes --lang js --kind Shop --image nginx:1.27 --into "$operator"
run hotshoe build "$operator/plugins/shop"
run cp target/plugins/nginx-python.wasm "$operator/target/plugins/shop.wasm" "$demo/"
run kubectl apply -f "$operator/crds"
kubectl wait --for=condition=Established --timeout=${patience}s --recursive=false -f "$operator/crds" >/dev/null
for folder in plugins/nginx-python "$operator/plugins/shop"; do
    grant "$folder"
    run kubectl apply -f "$folder/plugin.yaml"
done
run kubectl wait plugins --all --for=condition=Ready --timeout=${patience}s
run kubectl apply -f crds/samples/cache_v1alpha1_memcached.yaml -f crds/samples/web_v1_nginxserver.yaml -f "$operator/crds/samples"
for object in memcached/$sample nginxserver/example-nginx shop/shop-sample; do
    run kubectl wait "$object" --for=condition=Available --timeout=${patience}s
done
run kubectl get memcacheds,nginxservers,shops,deployments
run hotshoe status
say 'Each object is deleted by its operator too.'
run kubectl delete memcached,nginxserver,shop --all --timeout=${patience}s
await 'their children are gone' '' kubectl get deployment,service,pod --output name
say 'And so is an operator: its object is deleted, the others go on.'
run kubectl delete plugin shop --timeout=${patience}s
run kubectl get plugins

step 'What is left'
if [ -n "${KEEP:-}" ]; then
    say "The host runs on (its log: $log). To look around:" \
        "    export KUBECONFIG=$KUBECONFIG HOTSHOE_SOCKET=$HOTSHOE_SOCKET" \
        '    target/release/hotshoe status' \
        'To end it:' \
        "    kill $host"
    [ -z "${local_cluster:-}" ] || say "    $(command -v control-plane) down --dir $PWD/$demo/control-plane"
else
    kubectl delete plugin memcached nginx-python --timeout=${patience}s >/dev/null
    kubectl delete namespace $namespace --wait=false >/dev/null
    say 'Nothing runs any more. To go on by hand, with a control plane that stays:' \
        '    export HOTSHOE_CLUSTER=local                                           # in each terminal' \
        '    ./justw up' \
        '    ./justw run memcached' \
        '    ./justw kubectl apply -f crds/samples/cache_v1alpha1_memcached.yaml    # in another terminal'
    [ -n "${local_cluster:-}" ] || say 'The CRD and the accounts are still in the cluster: ./justw undeploy removes them.'
fi
printf '\nEverything was seen to happen, in %d s.\n' $SECONDS
