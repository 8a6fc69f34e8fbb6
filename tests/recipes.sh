#!/usr/bin/env bash
# Checks the recipes of this repository and of a project of `hotshoe new`, without a cluster: they refuse what they do not
# know before they act, print only what is asked for on standard output, and keep apart the files of two hosts.
# Usage: tests/recipes.sh [path of just]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
just=$(command -v "${1:-just}")
unset HOTSHOE_LISTEN
# Nothing is reached: a recipe that goes on fails here, with another message.
export HOTSHOE_CLUSTER=current KUBECONFIG=/dev/null

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# === options that a recipe does not have ===

# Otherwise one that is spelled wrongly, or meant for another recipe, would be ignored.
refuses() {
    local code=0 printed
    printed=$("$just" --justfile justfile "$@" --unknown 2>&1) || code=$?
    if [ $code != 2 ] || [[ $printed != *--unknown*'nothing was changed'* ]]; then
        fail "\`just $* --unknown\` ends with the exit code $code instead of 2, and says:
$printed"
    fi
}

for recipe in install undeploy deploy 'apply memcached'; do
    # shellcheck disable=SC2086 # the recipe and its argument
    refuses $recipe
done
echo 'each recipe refuses an option that it does not have'

# === a copy of the recipes, in which nothing is built and no cluster is asked ===

scene=$(mktemp -d)
trap 'rm -rf "$scene"' EXIT
target=$("$just" --justfile justfile --evaluate target)
mkdir -p "$scene"/{bin,crds} "$scene"/plugins/{one,two} "$scene"/project/{crds,plugins/one,plugins/two} "$scene/target/$target/release"
touch "$scene"/plugins/{one,two}/plugin.yaml "$scene"/project/plugins/{one,two}/plugin.yaml
cp -R justfile Cargo.toml rust-toolchain.toml deploy "$scene"
cp host/hotshoe/templates/new/project/justfile "$scene/project"
echo 'a kind' >"$scene/project/crds/kind.yaml"
cat >"$scene/bin/hotshoe" <<'END'
#!/bin/sh
case $1 in
build) echo "built $2" ;;
crd) mkdir -p "$3" && echo 'a kind' >"$3/kind.yaml" ;;
run) echo "INFO it runs with $*, plugin=one" >&2 ;;
*) echo "{\"answer\": \"$*\"}" ;;
esac
END
cat >"$scene/bin/kubectl" <<'END'
#!/bin/sh
echo "kubectl $*" >>"$CALLS"
case $* in
*'-f -') cat >/dev/null ;;
*'get-contexts -o name') ;;
*get-contexts*) [ "$3" = "$CONTEXT" ] ;;
*current-context*) [ -z "$CONTEXT" ] || echo "$CONTEXT" ;;
esac
END
printf '#!/bin/sh\n' >"$scene/bin/rustup"
printf '#!/bin/sh\necho "cargo $*" >>"$CALLS"\n' >"$scene/bin/cargo"
chmod +x "$scene"/bin/*
cp "$scene/bin/hotshoe" "$scene/target/$target/release/hotshoe"
cd "$scene"
export PATH="$scene/bin:$PATH" CONTEXT=dev CALLS=$scene/calls

# Usage: answers JUSTFILE WHAT_IT_PRINTS RECIPE [ARGUMENT…]
answers() {
    local justfile=$1 wanted=$2 printed
    shift 2
    printed=$("$just" --justfile "$justfile" "$@" 2>said) || fail "\`just $*\` fails: $(cat said)"
    [ "$printed" = "$wanted" ] || fail "\`just $*\` prints on standard output:
$printed
instead of:
$wanted"
}

# Checks that a recipe fails, that it says each of these, and that it has built nothing and changed nothing in a cluster.
# Usage: stops JUSTFILE RECIPE [ARGUMENT…] -- WORDS…
stops() {
    local justfile=$1 words=() code=0
    shift
    while [ "$1" != -- ]; do words+=("$1") && shift; done
    shift
    : >calls
    "$just" --justfile "$justfile" "${words[@]}" >said 2>&1 || code=$?
    [ $code != 0 ] || fail "\`just ${words[*]}\` goes on: $(cat said)"
    for part in "$@"; do
        grep -qF -- "$part" said || fail "\`just ${words[*]}\` does not say \`$part\`: $(cat said)"
    done
    ! grep -v '^kubectl config ' calls >&2 || fail "\`just ${words[*]}\` acts before it stops"
}

# === what is printed where ===

answers justfile '{"answer": "reload one -o json"}' reload one -o json
answers justfile '{"answer": "reload --changed -o json"}' reload -o json
answers justfile $'built plugins/one\nbuilt plugins/two' build-plugin
answers justfile '{"answer": "test plugins/one --components target/check/ -o json"}' test-plugin one -o json
answers justfile '{"answer": "shadow one target/shadow/one.wasm -o json"}' shadow one -o json
answers justfile $'{"answer": "test plugins/one --components target/check/ -o json"}\n{"answer": "test plugins/two --components target/check/ -o json"}' \
    test-plugin -o json
answers project/justfile '{"answer": "reload one -o json"}' reload one -o json
answers project/justfile '{"answer": "reload --changed -o json"}' reload -o json
answers project/justfile '{"answer": "grants plugins/one/plugin.yaml plugins/two/plugin.yaml -o json"}' grants -o json
mkdir -p project/target/check
touch project/target/check/old.wasm
answers project/justfile $'one:\n{"answer": "test plugins/one/plugin.yaml --components target/check"}\ntwo:\n{"answer": "test plugins/two/plugin.yaml --components target/check"}' test
[ ! -e project/target/check/old.wasm ] || fail '`just test` of a project leaves earlier components'
echo 'what a build prints is not in what a recipe prints'

# === names ===

for recipe in run build-plugin test-plugin apply reload logs shadow; do
    stops justfile $recipe nope -- 'there is no plugin nope; nothing was changed' 'plugins/ has one two' "./justw $recipe NAME"
done
for recipe in apply shadow; do
    stops justfile $recipe -- 'no plugin is named; nothing was changed' 'plugins/ has one two' "./justw $recipe NAME"
done
stops justfile apply one nope -- 'there is no plugin nope; nothing was changed'
stops justfile run --nope one -- 'no plugin is named before --nope'
stops project/justfile shadow --show 3 -- 'name one of: one two'
mv project/plugins/two project/two
answers project/justfile '{"answer": "shadow one target/shadow/one.wasm --show 3"}' shadow --show 3
answers project/justfile '{"answer": "shadow one target/shadow/one.wasm"}' shadow
mv project/two project/plugins/two
echo 'a recipe that needs a plugin says which there are, before anything is built'

[ -x target/release/hotshoe ] || fail 'the recipes above have built no host'

# === clusters and addresses ===

CONTEXT='' stops justfile install CLUSTER=other -- 'there is no context other; nothing was changed' 'has no context' 'CLUSTER=local'
CONTEXT='' stops justfile install -- 'no current context is set; nothing was changed'
CONTEXT='' stops project/justfile run --listen 127.0.0.1:0 -- 'no current context is set; nothing was changed' 'kubectl config use-context'
coproc python3 -uc 'import socket, sys; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1]); sys.stdin.read()'
read -r port <&"${COPROC[0]}"
for file in justfile project/justfile; do
    for option in "--listen 127.0.0.1:$port" "--listen=127.0.0.1:$port"; do
        # shellcheck disable=SC2086 # the option and its argument
        stops $file run one $option -- "something listens on 127.0.0.1:$port already" 'nothing was changed'
    done
    HOTSHOE_LISTEN=127.0.0.1:$port stops $file run one -- "something listens on 127.0.0.1:$port already"
done
echo 'no host is started where it cannot run'

# === the files of two hosts ===

deploy/run.sh one 2>said
deploy/run.sh one --listen 127.0.0.1:8081 2>said

# Waits until a file has a line with these words.
until_said() {
    local deadline=$((SECONDS + 20))
    until grep -qF -- "$2" "$1" 2>said; do
        [ $SECONDS -lt $deadline ] || fail "$1 does not have \`$2\`: $(cat "$1")"
        sleep 0.05
    done
}

until_said target/run/hotshoe.log 'hotshoe.kubeconfig'
until_said target/run/hotshoe-8081.log 'hotshoe-8081.kubeconfig'
! grep -qF 8081 target/run/hotshoe.log || fail 'two hosts write into the same log'
[ "$(cat target/run/hotshoe.pid)" != "$(cat target/run/hotshoe-8081.pid)" ] || fail 'two hosts have the same process id'

# Usage: follows WORDS_IN_THE_LOG ARGUMENT…
follows() {
    local wanted=$1
    shift
    : >followed # which the other process would empty later
    set -m # with a process group of its own, which is ended below
    "$just" --justfile justfile logs "$@" >followed 2>&1 &
    set +m
    until_said followed "$wanted"
    kill -- -$!
    wait $! || true
}

follows hotshoe.kubeconfig one
follows hotshoe-8081.kubeconfig one --listen 127.0.0.1:8081
HOTSHOE_LISTEN=127.0.0.1:8081 follows hotshoe-8081.kubeconfig one
stops justfile logs one --listen 127.0.0.1:8082 -- 'no host has run here that listens on 127.0.0.1:8082' 'target/run has hotshoe-8081.log hotshoe.log'
stops justfile logs one --nope -- 'not --nope'
echo 'two hosts have files of their own, and `logs` reads those of the one that is meant'

# === what an engine is given ===

printf '#!/bin/sh\necho "docker $* mirror=$CRATES_MIRROR" >>"$CALLS"\n' >bin/docker
chmod +x bin/docker
: >calls
HTTPS_PROXY=http://user:secret@proxy:3128 CRATES_MIRROR=sparse+https://mirror.example.com/index/ deploy/image.sh build one:1 2>said
for part in '--build-arg HTTPS_PROXY ' '--build-arg CRATES_MIRROR ' 'mirror=sparse+https://mirror.example.com/index/' '--tag one:1 .'; do
    grep '^docker build ' calls | grep -qF -- "$part" || fail "the engine is not given \`$part\`: $(cat calls)"
done
! grep -F secret calls >&2 || fail 'the password of the proxy is among the arguments of the engine'
! grep -F 'PIP_INDEX_URL' calls >&2 || fail 'the engine is given a mirror that is not set'
echo 'an image is built by the proxies and from the mirrors of the environment'
