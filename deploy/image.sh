#!/usr/bin/env bash
# Builds the container image with the first of docker, podman and buildah that works, or takes it to a place
# from which nodes can pull or run it.
# Usage: deploy/image.sh build|push|kind-load|minikube-load IMAGE
#   build          builds it, in the images $RUST_IMAGE and $NODE_IMAGE if they are set, by the proxies of the environment
#                  and from the mirrors $CRATES_MIRROR, $DEBIAN_MIRROR, $RUSTUP_DIST_SERVER, $PIP_INDEX_URL and
#                  $NPM_CONFIG_REGISTRY
#   push           pushes it to the registry in its name
#   kind-load      loads it into the nodes of the kind cluster $KIND_CLUSTER_NAME (kind)
#   minikube-load  loads it into the nodes of the minikube profile $MINIKUBE_PROFILE (minikube)
# Example: deploy/image.sh push registry.example.com/hotshoe:1
set -euo pipefail

case "${1:-}" in
build | push | kind-load | minikube-load) [ $# -eq 2 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2; } ;;
-h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2 && exit 2 ;;
esac
step=$1
image=$2
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf 'error: %s\n  where: %s\n  next:  %s\n' "$1" "$2" "$3" >&2
    exit 1
}

find_engine() {
    if docker version >/dev/null 2>&1; then
        engine=docker
    elif podman info >/dev/null 2>&1; then
        engine=podman
    elif buildah info >/dev/null 2>&1; then
        engine=buildah
    else
        fail "no container engine can be used, so there is no $image" \
            'docker, podman and buildah on your PATH; a docker without its daemon does not count' \
            'start or install one; `./justw dist image` makes the image without'
    fi
}

need() {
    command -v "$1" >/dev/null || fail "$1 is not installed, so $image was not loaded" 'your PATH' "install $1, or \`./justw push IMG=REGISTRY/NAME:TAG\`"
}

# Saves the image as a file, for tools that read no engine's images but docker's.
saved() {
    archive=$(mktemp)
    trap 'rm -f "$archive"' EXIT
    if [ $engine = buildah ]; then buildah push "$image" "docker-archive:$archive:$image"; else $engine save -o "$archive" "$image"; fi
}

case $step in
build)
    find_engine
    echo "building $image with $engine: 10 to 20 minutes the first time" >&2
    # The engine reads the values from the environment: a proxy or a mirror may have a password, which others would see
    # in the list of processes.
    given=()
    for name in RUST_IMAGE NODE_IMAGE CRATES_MIRROR DEBIAN_MIRROR RUSTUP_DIST_SERVER PIP_INDEX_URL NPM_CONFIG_REGISTRY \
        {HTTP,HTTPS,NO}_PROXY {http,https,no}_proxy; do
        [ -z "${!name:-}" ] || given+=(--build-arg "$name")
    done
    DOCKER_BUILDKIT=1 $engine build "${given[@]}" --build-arg HOTSHOE_COMMIT="${HOTSHOE_COMMIT:-unknown}" --tag "$image" .
    ;;
push)
    case $image in
    */*) ;;
    *) fail "$image names no registry, so it was not pushed" 'IMG' '`./justw push IMG=REGISTRY/NAME:TAG`, with an image that `./justw image IMG=…` built' ;;
    esac
    find_engine
    $engine push "$image"
    ;;
kind-load)
    need kind
    find_engine
    if [ $engine = docker ]; then
        kind load docker-image "$image" --name "${KIND_CLUSTER_NAME:-kind}"
    else
        saved
        kind load image-archive "$archive" --name "${KIND_CLUSTER_NAME:-kind}"
    fi
    ;;
minikube-load)
    need minikube
    find_engine
    if [ $engine = docker ]; then
        minikube --profile "${MINIKUBE_PROFILE:-minikube}" image load "$image"
    else
        saved
        minikube --profile "${MINIKUBE_PROFILE:-minikube}" image load "$archive"
    fi
    ;;
esac
