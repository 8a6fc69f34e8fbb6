# syntax=docker/dockerfile:1
# One static binary and the plugins, and nothing else: no shell, no package, no user but a number.
# `just image` builds it; `just dist image` makes one of the same files without an engine.

# The images that it is built in. Tags can be moved: to pin the build, name them by digest, as in
# --build-arg RUST_IMAGE=docker.io/library/rust:1.95.0-bookworm@sha256:…
ARG RUST_IMAGE=docker.io/library/rust:1.95.0-bookworm
ARG NODE_IMAGE=docker.io/library/node:22-bookworm-slim

FROM ${NODE_IMAGE} AS node

FROM ${RUST_IMAGE} AS build
# Mirrors, for a build that does not reach the Internet: of crates, by its index (sparse+https://…/index/), of Debian
# (https://…, without /debian), and of what rustup, pip and npm install. Proxies are known without being declared here.
ARG CRATES_MIRROR
ARG DEBIAN_MIRROR
ARG RUSTUP_DIST_SERVER
ARG PIP_INDEX_URL
ARG NPM_CONFIG_REGISTRY
RUN if [ -n "$CRATES_MIRROR" ]; then \
        printf '[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "%s"\n' "$CRATES_MIRROR" >>"$CARGO_HOME/config.toml"; \
    fi \
    && if [ -n "$DEBIAN_MIRROR" ]; then sed -i "s|http://deb.debian.org|$DEBIAN_MIRROR|" /etc/apt/sources.list.d/debian.sources; fi
# For the plugins in Python and in JavaScript.
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY --from=node /usr/local/ /usr/local/
# The image's own toolchain, whatever else rust-toolchain.toml names for developers.
ENV RUSTUP_TOOLCHAIN=1.95.0 \
    CC_aarch64_unknown_linux_musl=gcc \
    CC_x86_64_unknown_linux_musl=gcc
RUN rustup target add wasm32-unknown-unknown "$(uname -m)-unknown-linux-musl"
WORKDIR /src
COPY . .
ARG HOTSHOE_COMMIT=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --target "$(uname -m)-unknown-linux-musl" -p hotshoe \
    && cp "target/$(uname -m)-unknown-linux-musl/release/hotshoe" target/release/hotshoe \
    && for plugin in plugins/*/plugin.yaml; do target/release/hotshoe build "$(dirname "$plugin")" || exit 1; done \
    && deploy/image-root.sh /image

FROM scratch
COPY --from=build /image/ /
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["/hotshoe"]
CMD ["run", "/plugins/memcached"]
