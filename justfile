# `just` alone lists the recipes; ./justw runs them on a machine without just.
# A recipe that needs a toolchain, a tool, a binary or a cluster gets it first, and says so. Where a recipe sources
# deploy/recipes.sh, the commands after that are functions there. A recipe whose name begins with `_` is part of others.

import? 'tests/seldom.just'
set positional-arguments := true
set no-exit-message := true
set shell := ["bash", "-euo", "pipefail", "-c"]

# What deploy/install.yaml runs: plugins, and more options of `hotshoe manifests`. After a change: just crds
deployed := "plugins/memcached"
deployed_options := "--env MEMCACHED_IMAGE=memcached:1.6-alpine"

# The plugins whose rights and definitions the chart has, each a value of it. After a change: just crds
charted := "backup default-deny memcached nginx pdb redis tenant"

# The cluster that recipes act on, and the image of `image` and `deploy`; also after a recipe's name, as for `make`.
CLUSTER := env("HOTSHOE_CLUSTER", "")
export HOTSHOE_CLUSTER := CLUSTER
export IMG := env("IMG", "")
default_image := "hotshoe:" + `sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml`

# One profile and one target for everything that is built for this machine: otherwise wasmtime would be
# compiled once for each. On Linux the binary is static.
target := if os() == "linux" { arch() + "-unknown-linux-musl" } else { `rustc -vV | sed -n 's/^host: //p'` }
cargo := "--locked --release --target " + target
guests := "--locked --target-dir ../target/guests"
fuzz := "--locked --release --target-dir ../target/fuzz"
hotshoe := justfile_directory() / "target/release/hotshoe"

export HOTSHOE_JUST := just_executable()
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

_default:
    @"{{ just_executable() }}" --justfile "{{ justfile() }}" --list --unsorted

# Show everything on a real control plane, step by step; KEEP=1 leaves it running
demo: build control-plane
    @tests/demo.sh

# Start the local control plane and say how to use it
up: control-plane
    @target/control-plane/bin/control-plane up
    @echo '# For recipes, export HOTSHOE_CLUSTER=local; KUBECONFIG is for kubectl and other programs.'

# Stop the local control plane; nothing is left of it
down:
    @if [ -x target/control-plane/bin/control-plane ]; then target/control-plane/bin/control-plane down; else echo "there is no local control plane"; fi

# Run kubectl: just kubectl get memcacheds
kubectl *arguments:
    @. deploy/recipes.sh; use_cluster; kubectl "$@"

# Run a host here, under its own account, with the Plugin objects of these plugins: just run memcached CLUSTER=current
run *arguments:
    @. deploy/recipes.sh; read_plugins "$@"; run_host

# Run a host here, under its own account, that follows the Plugin objects of the cluster: just host CLUSTER=current
host *arguments:
    @. deploy/recipes.sh; read_options "$@"; run_host

# Build plugins, and apply their rights and their Plugin objects for a host that runs: just apply memcached nginx
apply *arguments:
    @. deploy/recipes.sh; read_plugins "$@"; no_options; build_plugins; use_cluster; deploy/apply.sh "${names[@]}"

# Build a plugin where no host looks for it, and show what it would change; exit code 3: something would change
shadow *arguments:
    @. deploy/recipes.sh; read_plugin "$@"; show_changes

# Build a plugin again and have the running host activate it, or all that changed; with --dry-run, only show what would change
reload *arguments:
    @. deploy/recipes.sh; reload "$@"

# At each save, build a plugin, run its cases, show what would change on the cluster, and have the running host activate it
dev *arguments:
    @. deploy/recipes.sh; read_plugin "$@"; try_at_each_save

# Follow a plugin's lines in the log of `just run`; if that was given --listen, give the same here
logs *arguments:
    @. deploy/recipes.sh; read_plugin "$@"; follow_log

# Build everything: target/release/hotshoe and each target/plugins/NAME.wasm
build: build-host
    @for plugin in plugins/*/plugin.yaml; do "{{ hotshoe }}" build "$(dirname "$plugin")"; done

# Build a plugin, or all: target/plugins/NAME.wasm
build-plugin *name:
    @. deploy/recipes.sh; read_plugin_or_all "$@"; build_components

# Write what is generated and committed: crds/, those of the examples, the manifests in deploy/ and the files of the chart
crds: (_generate "crds" "deploy" "plugins/examples/crds" "deploy/chart/hotshoe/files")

# Build the book into target/book
docs: _toolchain
    @. deploy/recipes.sh; build_book 0.5.4

# Build the container image: just image IMG=registry/hotshoe:1
image image=IMG: (_image "build" image)

# Push the image to the registry in its name: just push IMG=registry/hotshoe:1
push image=IMG: (_image "push" image)

# Make all that a release has in target/dist, or some parts of it: just dist program image
dist *parts: build
    @deploy/dist.sh "$@"

# Apply the CRDs: just install CLUSTER=current (or local, or a context)
install *arguments:
    @. deploy/recipes.sh; read_options "$@"; no_options; use_cluster; deploy/install-crds.sh

# Apply the CRDs and the host, and wait until it is ready: just deploy CLUSTER=current IMG=registry/hotshoe:1
deploy *arguments:
    @. deploy/recipes.sh; deploy "$@"

# Delete every object of the CRDs, which the host cleans up, and then remove the host and the CRDs
undeploy *arguments:
    @. deploy/recipes.sh; read_options "$@"; no_options; use_cluster; undeploy

# What to run before a commit, in a minute or two: format, clippy, core tests, the plugins' logic, the fuzz targets' seeds
check: (_stages "fmt-check" "test-core" "fuzz-short" "test-logic" "test-logic-js" "test-logic-python" "lint")

# Everything that CI runs
test: (_stages "fmt-check" "test-core" "fuzz-short" "test-logic" "test-logic-js" "test-logic-python" "apply-types-check" "lint" "docs" "build" "recipes-check" "test-unit" "crds-check" "test-plugin" "control-plane" "test-e2e" "demo")

# The pure half of the host: what a plugin may do and what must be written, in seconds
test-core *arguments: _toolchain
    cargo test --locked -p hotshoe-core -p hotshoe-crd -p hotshoe-attacks "$@"

# The host's own tests, without a cluster
test-unit: t
    cargo test {{ cargo }} -p hotshoe --test it

# One unit test of the host, or a few: just t rollout::
t *arguments: _toolchain
    @. deploy/recipes.sh; test_units "{{ cargo }}" "$@"

# The logic of the plugins, natively
test-logic *arguments: _toolchain
    cd plugins && cargo test {{ guests }} --all-features "$@"

# The logic of the plugins in Python, and their SDK, by pytest
test-logic-python *arguments:
    @plugins/test-python.sh "$@"

# The logic of the plugins in JavaScript, and their SDK, in Node
test-logic-js *arguments:
    @plugins/test-js.sh "$@"

# Run the cases of a plugin, or of all, on its component in the sandbox of production; --accept writes the answers into the cases
test-plugin *arguments:
    @. deploy/recipes.sh; test_plugins "$@"

# The host from outside, on a real control plane; the harness bounds how many tests run at once, and most of these wait
test-e2e *arguments: build _fixtures control-plane _programs
    RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((8 * {{ num_cpus() }}))}" cargo test {{ cargo }} -p hotshoe-tests "$@"

# Run the fuzz targets on their seeds and many mutations of these, in seconds
fuzz-short *arguments: _toolchain
    cd fuzz && cargo test {{ fuzz }} "$@"

# Format the Rust code
fmt *options: _toolchain
    @for folder in . plugins tests/fixtures fuzz; do (cd $folder && cargo fmt --all "$@"); done

# Run clippy on everything, shellcheck and actionlint on the rest, with no warning allowed
lint: _toolchain
    CARGO_INCREMENTAL=1 cargo clippy {{ cargo }} --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --no-deps -p hotshoe-core -p hotshoe-crd
    cd plugins && cargo clippy {{ guests }} --workspace --all-targets --all-features -- -D warnings
    cd plugins && cargo clippy {{ guests }} --release --target wasm32-unknown-unknown --workspace --lib -- -D warnings
    cd fuzz && cargo clippy {{ fuzz }} --lib --test short -- -D warnings
    @tests/lint.sh

# Measure admission, conversion, decisions, failover, fleet, hostile, kopf, model, needs, quick, scrape, shards or swap, beside the targets: just bench quick --runs 3
bench name *arguments: build control-plane
    cargo build {{ cargo }} -p hotshoe-bench
    @"target/{{ target }}/release/hotshoe-bench" "$@"

# Remove all build products
clean: down
    rm -rf target

[private]
fmt-check: (fmt "--check")

# Fails if a recipe ignores what it does not know, prints more than it is asked for, or mixes up the files of two hosts.
[private]
recipes-check: build-host
    @tests/recipes.sh "{{ just_executable() }}"

[private]
crds-check: (_generate "target/generated/crds" "target/generated/deploy" "target/generated/examples" "target/generated/chart")
    @. deploy/recipes.sh; compare crds crds target/generated/crds; compare crds deploy target/generated/deploy
    @. deploy/recipes.sh; compare crds plugins/examples/crds target/generated/examples
    @. deploy/recipes.sh; compare crds deploy/chart/hotshoe/files target/generated/chart

[private]
control-plane:
    @tests/control-plane/build.sh

# The package of the tests is built too because of the features that it enables, so that the host is compiled once for both.
[private]
build-host: _toolchain
    cargo build {{ cargo }} -p hotshoe -p hotshoe-tests --bin hotshoe
    @. deploy/recipes.sh; place_host "target/{{ target }}/release/hotshoe"

_generate crds deploy examples chart: build-host
    @[ "$1" = crds ] || rm -rf "$1" "$2" "$3" # otherwise a file that is no longer generated would be compared as well
    @mkdir -p "$1" "$2" "$3"
    @for plugin in {{ deployed }}; do "{{ hotshoe }}" build "$plugin"; done
    @for name in {{ charted }}; do "{{ hotshoe }}" build "plugins/$name"; done
    @"{{ hotshoe }}" crd --out "$1"; "{{ hotshoe }}" crd --host --out "$1"
    @"{{ hotshoe }}" crd --out "$3" plugins/examples/{bluegreen,ephemeral-volume,indexedjob,propagation}
    @. deploy/recipes.sh; write "$2/rbac.yaml" hotshoe rbac --offline {{ deployed }}
    @. deploy/recipes.sh; write "$2/install.yaml" hotshoe manifests --offline {{ deployed }} {{ deployed_options }}
    @. deploy/recipes.sh; write "$2/install-objects.yaml" hotshoe manifests --objects {{ deployed_options }}
    @. deploy/recipes.sh; write_chart "$4" "$1" {{ charted }}

_image step image:
    @image=${2#IMG=}; deploy/image.sh "$1" "${image:-{{ default_image }}}"

_stages +names:
    @tests/stages.sh "$@"

_toolchain:
    @. deploy/recipes.sh; install_toolchain {{ target }}

_fixtures: build-host
    @for name in converting crews-js crews-python faulty faulty-python hostile marked; do mkdir -p "target/tests/plugins/$name" && "{{ hotshoe }}" build "tests/fixtures/$name" --out "target/tests/plugins/$name/$name.wasm"; done

_programs:
    @tests/programs.sh
