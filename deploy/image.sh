#!/usr/bin/env bash
# What `just image` does: builds the image with the first of docker, podman and buildah that works.
# Usage: deploy/image.sh IMAGE
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if docker version >/dev/null 2>&1; then
    engine=docker
elif podman info >/dev/null 2>&1; then
    engine=podman
elif buildah info >/dev/null 2>&1; then
    engine=buildah
else
    printf 'error: no container engine can be used, so %s was not built\n  where: docker, podman and buildah on your PATH; a docker without its daemon does not count\n  next:  start or install one; `just image-root` lays out the same files without\n' "$1" >&2
    exit 1
fi
echo "building $1 with $engine: 10 to 20 minutes the first time" >&2
DOCKER_BUILDKIT=1 $engine build --build-arg HOTSHOE_COMMIT="${HOTSHOE_COMMIT:-unknown}" --tag "$1" .
