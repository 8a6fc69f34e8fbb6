# `just` alone lists the recipes; ./justw runs them on a machine without just.
# A recipe that needs a toolchain, a tool, a binary or a cluster gets it first, and says so.

set positional-arguments := true
set shell := ["bash", "-euo", "pipefail", "-c"]

version := `sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml`

# The image that `image` and `deploy` use, and the cluster that recipes act on, if they are named.
IMG := env("IMG", "")
CLUSTER := env("HOTSHOE_CLUSTER", "")
export HOTSHOE_CLUSTER := CLUSTER
default_image := "hotshoe:" + version

mdbook := "0.5.4"

# One profile and one target for everything that is built for this machine: otherwise wasmtime would be
# compiled once for each. On Linux the binary is static.
target := if os() == "linux" { arch() + "-unknown-linux-musl" } else { `rustc -vV | sed -n 's/^host: //p'` }
cargo := "--locked --release --target " + target
guests := "--locked --target-dir ../target/guests"
fuzz := "--locked --release --target-dir ../target/fuzz"
hotshoe := justfile_directory() / "target/release/hotshoe"

# For recipes that look at their arguments before anything is built, and for those that only ask a running host.
build_host := '"' + just_executable() + '" --justfile "' + justfile() + '" build-host'
any_host := '[ -x "' + hotshoe + '" ] || ' + build_host

# The crates of the host, but for those that `test-core` tests.
crates := "hotshoe hotshoe-cluster hotshoe-operator hotshoe-platform hotshoe-registry hotshoe-sandbox"

# The unit tests of the host are compiled incrementally and with few optimisations, because only they use that build. The
# product is always compiled with the profile of the product.
drafted := replace_regex(crates, '(\S+) ?', "--config profile.release.package.$1.incremental=true --config profile.release.package.$1.codegen-units=64 --config profile.release.package.$1.opt-level=1 ")
unit := drafted + "--lib " + replace_regex(crates, '(\S+) ?', "-p $1 ")

# Tests on a control plane mostly wait: for back-offs, for the garbage collector, for a host that starts. The harness
# bounds how many run at once; the additional threads are for tests that wait for their turn on a control plane of their own.
waiting := 'RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((8 * ' + num_cpus() + '))}"'

# What deploy/install.yaml runs: plugins, and more options of `hotshoe manifests`.
deployed := "plugins/memcached"
deployed_options := "--env MEMCACHED_IMAGE=memcached:1.6-alpine"

# Reads CLUSTER=… and IMG=… among the arguments of a recipe, as `make` does; the other arguments stay.
words := 'words=(); for word in "$@"; do case $word in CLUSTER=*) export HOTSHOE_CLUSTER=${word#CLUSTER=} ;; IMG=*) IMG=${word#IMG=} ;; *) words+=("$word") ;; esac; done; set -- ${words[@]+"${words[@]}"}'

# How a recipe about plugins begins; the name of the recipe is the end of $0. If the first argument is an option, the only
# plugin is used (`defaulted`). With `named`, the first argument is the $name and the others are the options. With
# `several`, all arguments up to the first option are names, and are left in $names; `built` then builds these for hosts and
# checks their grants. With `folders`, they are built where no host looks for them, and their folders take the places of the
# names.
defaulted := 'case ${1:--} in -*) only=$(deploy/plugin.sh "${0##*/}" "$@"); set -- "$only" "$@" ;; esac'
named := words + '; ' + defaulted + '; name=$(deploy/plugin.sh "${0##*/}" "$1"); shift'
several := words + '; ' + defaulted + '; names=(); while [[ ${1:--} != -* ]]; do name=$(deploy/plugin.sh "${0##*/}" "$1"); names+=("$name"); shift; done'
built := build_host + '; for name in "${names[@]}"; do "' + hotshoe + '" build "plugins/$name"; "' + hotshoe + '" rbac --offline "plugins/$name" >/dev/null; done'
folders := several + '; ' + build_host + '; folders=(); for name in "${names[@]}"; do "' + hotshoe + '" build "plugins/$name" --out ' + check + ' >&2; folders+=("plugins/$name"); done; set -- "${folders[@]}" --components ' + check + ' "$@"'

# Where a recipe takes no other arguments than those that were read: it refuses an option instead of ignoring it.
complete := '[ $# = 0 ] || { echo "error: $1 is no option of this recipe; nothing was changed" >&2; exit 2; }'

# Where components are built that are only shown or tested: no host reads them from here.
check := "target/check/"

# Most machines have no C compiler for musl, and the C code of our dependencies does not need one.
export CC_x86_64_unknown_linux_musl := env("CC_x86_64_unknown_linux_musl", "gcc")
export CC_aarch64_unknown_linux_musl := env("CC_aarch64_unknown_linux_musl", "gcc")

# The commit that `hotshoe version` prints: the last one that changed a source of the host, so that
# other commits do not cause a new compilation.
export HOTSHOE_COMMIT := env("HOTSHOE_COMMIT", `
    sources="host wit deploy/host.yaml.j2 Cargo.toml Cargo.lock"
    commit=$(git log -1 --format=%h -- $sources 2>/dev/null) || commit=
    [ -z "$commit" ] || [ -z "$(git status --porcelain -- $sources)" ] || commit=$commit-dirty
    echo "${commit:-unknown}"`)

# These variables would have everything compiled a second time, in other places, and plugins with another stack size.
unexport RUSTFLAGS
unexport CARGO_ENCODED_RUSTFLAGS
unexport CARGO_BUILD_TARGET
unexport CARGO_TARGET_DIR

[private]
default:
    @"{{ just_executable() }}" --justfile "{{ justfile() }}" --list --unsorted

# Build everything: target/release/hotshoe and each target/plugins/NAME.wasm
[group('build')]
build: build-host
    @for plugin in plugins/*/plugin.yaml; do "{{ hotshoe }}" build "$(dirname "$plugin")"; done

# Make a new plugin here: just new cache --lang python
[group('build')]
[no-exit-message]
new *arguments: build-host
    @"{{ hotshoe }}" new "$@"

# Build a plugin: target/plugins/NAME.wasm
[group('build')]
[no-exit-message]
build-plugin *name:
    @{{ named }}; {{ build_host }}; "{{ hotshoe }}" build "plugins/$name" "$@"

# Write what is generated and committed: crds/, and the manifests in deploy/
[group('build')]
crds: (generated "crds" "deploy")

# Write the types of typed children in the SDK, from the OpenAPI document of Kubernetes
[group('build')]
apply-types folder="plugins/sdk/src/apply": toolchain
    @plugins/apply-codegen/generate.sh "$1"

alias generate := crds

# Build the container image: just image IMG=registry/hotshoe:1
[group('build')]
image image=IMG: (image-step "build" image)

# Push the image to the registry in its name: just push IMG=registry/hotshoe:1
[group('cluster')]
push image=IMG: (image-step "push" image)

# Load the image into the nodes of a kind cluster; KIND_CLUSTER_NAME names another than kind
[group('cluster')]
kind-load image=IMG: (image-step "kind-load" image)

# Load the image into the nodes of minikube; MINIKUBE_PROFILE names another profile
[group('cluster')]
minikube-load image=IMG: (image-step "minikube-load" image)

[private]
[no-exit-message]
image-step step image:
    @image=${2#IMG=}; deploy/image.sh "$1" "${image:-{{ default_image }}}"

# Lay out the files of the image in a folder, without a container engine
[group('build')]
image-root folder="target/image": build
    @deploy/image-root.sh "$1"

# Remove all build products
[group('build')]
clean: down
    rm -rf target

# Start the local control plane and say how to use it
[group('cluster')]
up: control-plane
    @target/control-plane/bin/control-plane up
    @echo '# For recipes, export HOTSHOE_CLUSTER=local; KUBECONFIG is for kubectl and other programs.'

# Stop the local control plane; nothing is left of it
[group('cluster')]
down:
    @if [ -x target/control-plane/bin/control-plane ]; then target/control-plane/bin/control-plane down; else echo "there is no local control plane"; fi

# Run kubectl: just kubectl get memcacheds
[group('cluster')]
[no-exit-message]
kubectl *arguments:
    @. deploy/cluster.sh; kubectl "$@"

# Show what plugins ask for, beside what their plugin.yaml grants: just grants memcached
[group('build')]
[no-exit-message]
grants *names:
    @{{ folders }}; "{{ hotshoe }}" grants "$@"

# Print the accounts and rights of a host with these plugins: just rbac memcached | just kubectl apply -f -
[group('cluster')]
[no-exit-message]
rbac *names:
    @{{ folders }}; . deploy/cluster.sh; "{{ hotshoe }}" rbac "$@"

# Apply the CRDs: just install CLUSTER=current (or local, or a context) | just install
[group('cluster')]
[no-exit-message]
install *arguments:
    @{{ words }}; {{ complete }}; . deploy/cluster.sh; deploy/install-crds.sh

# Remove the CRDs and all of their objects, which a running host cleans up first
[group('cluster')]
[no-exit-message]
uninstall *arguments:
    @{{ words }}; {{ complete }}; . deploy/cluster.sh; deploy/delete-parents.sh && kubectl delete --ignore-not-found -f crds

# With --objects the host follows Plugin objects, which `just apply` applies; otherwise it has the plugins in `deployed`.
# Apply the CRDs and the host, and wait until it is ready: just deploy CLUSTER=current IMG=registry/hotshoe:1
[group('cluster')]
[no-exit-message]
deploy *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    IMG={{ quote(IMG) }}
    {{ words }}
    manifest=deploy/install.yaml
    case ${1:-} in
    '') ;;
    --objects) manifest=deploy/install-objects.yaml ;;
    *) echo "error: deploy knows --objects, CLUSTER= and IMG=, and not $1; nothing was changed" >&2 && exit 2 ;;
    esac
    deploys=yes
    . deploy/cluster.sh
    deploy/install-crds.sh
    image=$IMG
    if [ -z "$image" ]; then
        image=$(kubectl get deployment hotshoe --namespace hotshoe-system --ignore-not-found -o jsonpath='{.spec.template.spec.containers[?(@.name=="hotshoe")].image}')
        [ -z "$image" ] || echo "the image stays the one that is deployed, $image; name another with IMG=" >&2
    fi
    sed -E "s|^( *image: ).*|\1${image:-{{ default_image }}}|" "$manifest" | kubectl apply -f -
    kubectl rollout status --namespace hotshoe-system --timeout=120s deployment/hotshoe

# Delete every object of the CRDs, which the host cleans up, and then remove the host and the CRDs
[group('cluster')]
[no-exit-message]
undeploy *arguments:
    @{{ words }}; {{ complete }}; . deploy/cluster.sh; deploy/delete-parents.sh && kubectl delete --ignore-not-found -f deploy/install.yaml -f deploy/install-objects.yaml -f crds && kubectl delete clusterroles,clusterrolebindings --selector app.kubernetes.io/name=hotshoe

# Run a host here, under its own account, with the Plugin objects of these plugins: just run memcached CLUSTER=current
[group('run')]
[no-exit-message]
run *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    {{ several }}
    deploy/address-is-free.sh "$@"
    {{ built }}
    . deploy/cluster.sh
    deploy/install-crds.sh
    exec deploy/run.sh "${names[@]}" "$@"

# Run a host here, under its own account, that follows the Plugin objects of the cluster: just host CLUSTER=current
[group('run')]
[no-exit-message]
host *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    {{ words }}
    deploy/address-is-free.sh "$@"
    {{ build_host }}
    . deploy/cluster.sh
    deploy/install-crds.sh
    exec deploy/run.sh "$@"

# Build plugins, and apply their rights and their Plugin objects for a host that runs: just apply memcached nginx
[group('run')]
[no-exit-message]
apply *arguments:
    @{{ several }}; {{ complete }}; {{ built }}; . deploy/cluster.sh; deploy/apply.sh "${names[@]}"

# Build a plugin again and have the running host activate it; with --dry-run, only show what would change
[group('run')]
[no-exit-message]
reload *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    {{ named }}
    if [ "${1:-}" = --dry-run ]; then
        shift
        exec "{{ just_executable() }}" --justfile "{{ justfile() }}" shadow "$name" "$@"
    fi
    {{ build_host }}
    "{{ hotshoe }}" build "plugins/$name" >&2
    "{{ hotshoe }}" reload "$name" "$@"

# Build a plugin where no host looks for it, and show what it would change; exit code 3: something would change
[group('run')]
[no-exit-message]
shadow *arguments:
    @{{ named }}; {{ build_host }}; "{{ hotshoe }}" build "plugins/$name" --out "target/shadow/$name.wasm" >&2; "{{ hotshoe }}" shadow "$name" "target/shadow/$name.wasm" "$@"

# Activate a component that requires approval, or that the running host has rolled back
[group('run')]
[no-exit-message]
approve *arguments:
    @{{ any_host }}
    @"{{ hotshoe }}" approve "$@"

# Have the running host activate an earlier component: just rollback memcached --to DIGEST
[group('run')]
[no-exit-message]
rollback *arguments:
    @{{ any_host }}
    @"{{ hotshoe }}" rollback "$@"

# Show which components of a plugin were active, and what became of them
[group('run')]
[no-exit-message]
history *arguments:
    @{{ any_host }}
    @"{{ hotshoe }}" history "$@"

# Show the state of the running host and its plugins
[group('run')]
[no-exit-message]
status *options:
    @{{ any_host }}
    @"{{ hotshoe }}" status "$@"

# The plugin's name is read from the end of a line, or from a JSON member: the text before it may come from a plugin.
# Follow a plugin's lines in the log of `just run`; if that was given --listen, give the same here
[group('run')]
[no-exit-message]
logs *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    {{ named }}
    [[ $# = 0 || "$*" =~ ^--listen[=\ ][^\ ]+$ ]] || { echo "error: logs knows --listen HOST:PORT, and not $*" >&2; exit 2; }
    . deploy/listen.sh "$@"
    if [ ! -e "$files.log" ]; then
        logs=$(cd target/run 2>/dev/null && ls | grep '^hotshoe.*\.log$' | xargs) || logs=
        printf 'error: no host has run here that listens on %s\n  where: target/run has %s\n  next:  start one with `./justw run`, or say which one is meant: --listen HOST:PORT\n' \
            "$address" "${logs:-no log}" >&2
        exit 1
    fi
    tail -n 1000 -F "$files.log" | sed -unE \
        -e '/^\{/{/"plugin":"'"$name"'"/p;d;}' \
        -e 'h;s/^.* plugin="?([^" ]*)"?( .*)?$/\1/;/^'"$name"'$/{g;p;}'

# Show everything on a real control plane, step by step; KEEP=1 leaves it running
[group('run')]
demo: build control-plane
    @tests/demo.sh

# What to run before a commit, in a minute or two: format, clippy, core tests, the plugins' logic, the fuzz targets' seeds
[group('test')]
check: (stages "fmt-check" "test-core" "fuzz-short" "test-logic" "test-logic-js" "test-logic-python" "lint")

# Everything that CI runs
[group('test')]
test: (stages "fmt-check" "test-core" "fuzz-short" "test-logic" "test-logic-js" "test-logic-python" "apply-types-check" "lint" "docs" "build" "recipes-check" "test-unit" "crds-check" "test-plugin" "control-plane" "test-e2e" "demo")

# The pure half of the host: what a plugin may do and what must be written, in seconds
[group('test')]
test-core *arguments: toolchain
    cargo test --locked -p hotshoe-core -p hotshoe-crd -p hotshoe-attacks "$@"

# The host's own tests, without a cluster
[group('test')]
test-unit: toolchain
    cargo test {{ cargo }} {{ unit }}
    cargo test {{ cargo }} -p hotshoe --test it

# One unit test of the host, or a few: just t rollout::
[group('test')]
t *arguments: toolchain
    cargo test {{ cargo }} {{ unit }} "$@"

# The logic of the plugins, natively
[group('test')]
test-logic *arguments: toolchain
    cd plugins && cargo test {{ guests }} --all-features "$@"

# The logic of the plugins in Python, and their SDK, by pytest
[group('test')]
test-logic-python *arguments:
    @plugins/test-python.sh "$@"

# The logic of the plugins in JavaScript, and their SDK, in Node
[group('test')]
test-logic-js *arguments:
    @plugins/test-js.sh "$@"

# Run the cases of a plugin, or of all, on its component in the sandbox of production; --accept writes the answers into the cases
[group('test')]
[no-exit-message]
test-plugin *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    names=(plugins/*/plugin.yaml)
    case ${1:--} in -*) ;; *) names=("plugins/$(deploy/plugin.sh "${0##*/}" "$1")/plugin.yaml"); shift ;; esac
    {{ build_host }}
    for name in "${names[@]}"; do
        name=$(basename "$(dirname "$name")")
        [ ${#names[@]} -eq 1 ] || echo "$name:" >&2
        "{{ hotshoe }}" build "plugins/$name" --out {{ check }} >&2
        "{{ hotshoe }}" test "plugins/$name" --components {{ check }} "$@"
    done

# The host from outside, on a real control plane
[group('test')]
test-e2e *arguments: build fixtures control-plane registry
    {{ waiting }} cargo test {{ cargo }} -p hotshoe-tests "$@"

# A plugin that attacks, beside a healthy one: every row of the table in docs/src/security.md. Part of test-e2e
[group('test')]
test-hostile *arguments: build control-plane
    {{ waiting }} cargo test {{ cargo }} -p hotshoe-tests --test e2e hostile:: "$@"

# Run the fuzz targets on their seeds and many mutations of these, in seconds
[group('test')]
fuzz-short *arguments: toolchain
    cd fuzz && cargo test {{ fuzz }} "$@"

# Fuzz one target until stopped, guided by coverage: just fuzz gate -- -max_total_time=600
[group('test')]
fuzz target *options: toolchain
    #!/usr/bin/env bash
    set -euo pipefail
    export PATH="$PATH:$PWD/target/tools/bin"
    if ! command -v cargo-fuzz >/dev/null; then
        echo "building cargo-fuzz into target/tools, once: about a minute" >&2
        cargo install --quiet --locked cargo-fuzz --root target/tools
    fi
    name=$1; shift
    [ "${1:-}" != -- ] || shift
    mkdir -p "target/fuzz/corpus/$name"
    # No sanitizer: there is no unsafe code to check, and a sanitizer would need another compiler.
    RUSTC_BOOTSTRAP=1 cargo fuzz run --release --sanitizer none --features libfuzzer --target-dir target/fuzz \
        "$name" "target/fuzz/corpus/$name" "fuzz/seeds/$name" -- "$@"

# Fails if a recipe ignores what it does not know, prints more than it is asked for, or mixes up the files of two hosts.
[private]
recipes-check: build-host
    @tests/recipes.sh "{{ just_executable() }}"

# The local control plane itself
[group('test')]
test-control-plane:
    tests/control-plane/test.sh

# Build the book into target/book
[group('build')]
docs: toolchain
    #!/usr/bin/env bash
    set -euo pipefail
    mdbook=target/tools/bin/mdbook
    if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v{{ mdbook }}" ]; then
        echo "building mdbook {{ mdbook }} into target/tools, once: about a minute" >&2
        # Unoptimised: it runs for a second only, so that an optimised build would take longer than it saves.
        CARGO_PROFILE_DEV_DEBUG=false cargo install --quiet --locked --debug --version {{ mdbook }} mdbook --no-default-features --root target/tools
    fi
    "$mdbook" build docs
    echo "the book: target/book/index.html"

# Write the pages of the book that are generated from the code
[group('build')]
docs-generate: toolchain
    HOTSHOE_WRITE_DOCS=1 cargo test {{ cargo }} -p hotshoe-tests --test e2e docs::reference::

# Format the Rust code
[group('test')]
fmt *options: toolchain
    cargo fmt --all "$@"
    cd plugins && cargo fmt --all "$@"
    cd tests/fixtures && cargo fmt --all "$@"
    cd fuzz && cargo fmt --all "$@"

# Run clippy on everything, with no warning allowed
[group('test')]
lint: toolchain
    CARGO_INCREMENTAL=1 cargo clippy {{ cargo }} --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps -p hotshoe-core -p hotshoe-crd
    cd plugins && cargo clippy {{ guests }} --workspace --all-targets --all-features -- -D warnings
    cd plugins && cargo clippy {{ guests }} --release --target wasm32-unknown-unknown --workspace --lib -- -D warnings
    cd fuzz && cargo clippy {{ fuzz }} --lib --test short -- -D warnings

# Check licences, advisories and sources of all dependencies
[group('test')]
deny: toolchain
    #!/usr/bin/env bash
    set -euo pipefail
    export PATH="$PATH:$PWD/target/tools/bin"
    if ! command -v cargo-deny >/dev/null; then
        echo "building cargo-deny into target/tools, once: about 5 minutes" >&2
        cargo install --quiet --locked cargo-deny --root target/tools
    fi
    for manifest in Cargo.toml plugins/Cargo.toml fuzz/Cargo.toml; do
        cargo deny --manifest-path "$manifest" --config deny.toml check -A unmatched-skip -A unmatched-skip-root -A unnecessary-skip -A license-not-encountered -A license-exception-not-encountered
    done

# Remove each condition of the gate in turn: some test must fail
[group('test')]
mutants *options: toolchain
    @tests/mutants.sh "$@"

# Measure speed and size; each figure is printed with its target
[group('test')]
bench-quick *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" quick "$@"

# Measure what a plugin that attacks costs the others; each figure is printed with its target
[group('test')]
bench-hostile *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" hostile "$@"

# Measure the nginx plugin in Python beside kopf; each figure is printed with its target
[group('test')]
bench-kopf *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" kopf "$@"

# Measure one decision of the plugins in each language; each figure is printed with its target
[group('test')]
bench-decisions *arguments: build
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" decisions "$@"

# Measure the memory of a host with many plugins; each figure is printed with its target
[group('test')]
bench-fleet *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" fleet "$@"

# Measure the take-over by another host after kill -9 under load, and check that two never write at once; each figure is printed with its target
[group('test')]
bench-failover *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" failover "$@"

# Measure how much faster two hosts with a shard each serve many objects than one; each figure is printed with its target
[group('test')]
bench-shards *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" shards "$@"

# Measure what the swap of a component costs while the host runs, and check that nothing is lost; each figure is printed with its target
[group('test')]
bench-swap *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" swap "$@"

[private]
fmt-check: (fmt "--check")

# Fails if the committed files differ from the generated ones.
[private]
crds-check: (generated "target/generated/crds" "target/generated/deploy")
    #!/usr/bin/env bash
    set -euo pipefail
    for generated in target/generated/{crds,deploy}/*.yaml; do
        file=${generated#target/generated/}
        diff -u "$file" "$generated" || {
            echo "error: $file is not what its source generates; run \`./justw crds\` and commit" >&2
            exit 1
        }
    done

# Fails if the SDK's types are not those of the OpenAPI document.
[private]
apply-types-check: (apply-types "target/generated/apply")
    #!/usr/bin/env bash
    set -euo pipefail
    for file in target/generated/apply/*; do
        diff -u "plugins/sdk/src/apply/$(basename "$file")" "$file" || {
            echo "error: the types of hotshoe_sdk::apply are not those of the OpenAPI document; run \`./justw apply-types\` and commit" >&2
            exit 1
        }
    done

[private]
generated crds deploy: build-host
    @[ "$1" = crds ] || rm -rf "$1" "$2" # otherwise a file that is no longer generated would be compared as well
    @mkdir -p "$1" "$2"
    @"{{ hotshoe }}" crd --out "$1"
    @"{{ hotshoe }}" crd --host --out "$1"
    @for plugin in {{ deployed }}; do "{{ hotshoe }}" build "$plugin"; done
    @"{{ hotshoe }}" rbac --offline {{ deployed }} >"$2/rbac.yaml.new"
    @"{{ hotshoe }}" manifests --offline {{ deployed }} {{ deployed_options }} >"$2/install.yaml.new"
    @"{{ hotshoe }}" manifests --objects {{ deployed_options }} >"$2/install-objects.yaml.new"
    @for file in rbac install install-objects; do mv "$2/$file.yaml.new" "$2/$file.yaml"; done

# Installs Rust, its components and its targets; prints nothing if all are there.
[private]
toolchain:
    #!/usr/bin/env bash
    set -euo pipefail
    command -v rustup >/dev/null || exit 0 # Rust was not installed by rustup: cargo will say what is missing
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if ! rustup run "$channel" cargo --version >/dev/null 2>&1; then
        echo "installing Rust $channel with rustup" >&2
        rustup toolchain install "$channel" --profile minimal --no-self-update
    fi
    installed=$(rustup target list --installed --toolchain "$channel")
    for target in wasm32-unknown-unknown {{ target }}; do
        grep -qx "$target" <<<"$installed" || rustup target add "$target" --toolchain "$channel"
    done
    for component in clippy rustfmt; do
        rustup which "cargo-${component/rustfmt/fmt}" >/dev/null 2>&1 || rustup component add "$component" --toolchain "$channel"
    done

# Builds the binary, and replaces it atomically at its fixed path: a running host keeps its own file. The package of the
# tests is built too because of the features that it enables, so that the host is compiled once for both.
[private]
build-host: toolchain
    cargo build {{ cargo }} -p hotshoe -p hotshoe-tests --bin hotshoe
    @mkdir -p target/release
    @[ "target/{{ target }}/release/hotshoe" -ef "{{ hotshoe }}" ] || { ln -f "target/{{ target }}/release/hotshoe" "{{ hotshoe }}.new" && mv -f "{{ hotshoe }}.new" "{{ hotshoe }}"; }

# Builds the plugins of the tests, so that no test has to wait for them.
[private]
fixtures: build-host
    @for name in faulty faulty-python hostile marked; do mkdir -p "target/tests/plugins/$name" && "{{ hotshoe }}" build "tests/fixtures/$name" --out "target/tests/plugins/$name/$name.wasm"; done

# Installs a registry, and a client of another project, for the tests.
[private]
registry:
    @tests/registry/install.sh

[private]
control-plane:
    @tests/control-plane/build.sh

# Runs recipes one after the other. At the end prints how long each took (also into target/stages.txt), and the failed
# assertions, which are hard to find in a long log. The control plane, which is built with Go, is built in the processor
# time that the first recipes leave; the output of its build is shown at its own stage.
[private]
stages +names:
    #!/usr/bin/env bash
    set -euo pipefail
    mkdir -p target
    log=target/control-plane.log
    case " $* " in *" control-plane "*)
        set -m
        nice -n 19 tests/control-plane/build.sh >$log 2>&1 & beside=$!
        set +m
        trap 'kill -- -$beside 2>/dev/null || true' EXIT
        ;;
    esac
    # On a terminal, recipes keep their progress bars, and their output is not copied.
    copy=/dev/null
    run() {
        if [ -t 1 ]; then "$@"; else copy=target/stage.log; "$@" 2>&1 | tee $copy; fi
    }
    table=
    for name in "$@"; do
        printf '\n━━━ just %s\n' "$name"
        began=$SECONDS
        [ "$name" != control-plane ] || { wait $beside || true; cat $log; }
        run "{{ just_executable() }}" --justfile "{{ justfile() }}" "$name" && result=ok || result=FAILED
        table+=$(printf '%-16s %5d s  %s' "$name" $((SECONDS - began)) "$result")$'\n'
        [ $result = ok ] || break
    done
    printf '%-16s %5d s\n%s' total $SECONDS "$table" >target/stages.txt
    printf '\n━━━\n'
    [ $result = ok ] || grep --text -A2 ' panicked at ' $copy | cut -c 1-600 || true
    cat target/stages.txt
    [ $result = ok ]
