# shellcheck shell=bash disable=SC2016 # backticks in messages are no commands
# Functions for the recipes of the justfile, which sources this file in the root of the repository: they read what a
# recipe was given, build what it needs, and do what takes more than a line.
# Usage: . deploy/recipes.sh; FUNCTION [ARGUMENT…]
# Example: . deploy/recipes.sh; read_plugin memcached --bench 50; build_host; hotshoe test "plugins/$name" "${options[@]}"

# Where components are built that are only tested: no host reads them from here.
check=target/check/

hotshoe() { target/release/hotshoe "$@"; }

# Usage: stop EXIT_CODE WHAT [WHERE NEXT]
stop() {
    printf 'error: %s\n' "$2" >&2
    [ $# -eq 2 ] || printf '  where: %s\n  next:  %s\n' "$3" "$4" >&2
    exit "$1"
}

# === the arguments of a recipe ===

# Reads CLUSTER=… and IMG=…, as `make` does; the others stay in $options. No plugin is in $names.
read_options() {
    local word
    names=()
    options=()
    for word in "$@"; do
        case $word in
        CLUSTER=*) export HOTSHOE_CLUSTER=${word#CLUSTER=} ;;
        IMG=*) export IMG=${word#IMG=} ;;
        *) options+=("$word") ;;
        esac
    done
}

# Reads the plugin that comes first, into $name; the only one of plugins/ if an option comes first. The rest is in $options.
read_plugin() {
    read_options "$@"
    read_name "${options[0]:-}"
    [[ ${options[0]:--} == -* ]] || options=("${options[@]:1}")
}

# Reads the plugins up to the first option into $names; the only one of plugins/ if there is none. The rest is in $options.
read_plugins() {
    read_plugin "$@"
    names=("$name")
    while [[ ${options[0]:--} != -* ]]; do
        read_name "${options[0]}"
        names+=("$name")
        options=("${options[@]:1}")
    done
}

# Reads the plugin that comes first into $names, or all of plugins/ if there is none. The rest is in $options.
read_plugin_or_all() {
    local file
    read_options "$@"
    if [[ ${options[0]:--} == -* ]]; then
        for file in plugins/*/plugin.yaml; do names+=("$(basename "$(dirname "$file")")"); done
    else
        read_name "${options[0]}"
        names=("$name")
        options=("${options[@]:1}")
    fi
}

# Checks that there is such a plugin, before anything is built or applied; the name of the recipe is the end of $0.
# Usage: read_name [NAME | OPTION]
read_name() {
    name=$(deploy/plugin.sh "${0##*/}" "$1")
}

# Refuses an option, for a recipe that would ignore it.
no_options() {
    [ ${#options[@]} -eq 0 ] || stop 2 "${options[0]} is no option of this recipe; nothing was changed"
}

# === what a recipe needs ===

# Installs Rust, its components and its targets; prints nothing if all are there.
# Usage: install_toolchain TARGET
install_toolchain() {
    command -v rustup >/dev/null || return 0 # Rust was not installed by rustup: cargo will say what is missing
    local channel installed wanted
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    if ! rustup run "$channel" cargo --version >/dev/null 2>&1; then
        echo "installing Rust $channel with rustup" >&2
        rustup toolchain install "$channel" --profile minimal --no-self-update
    fi
    installed=$(rustup target list --installed --toolchain "$channel")
    for wanted in wasm32-unknown-unknown "$1"; do
        grep -qx "$wanted" <<<"$installed" || rustup target add "$wanted" --toolchain "$channel"
    done
    for wanted in clippy rustfmt; do
        rustup which "cargo-${wanted/rustfmt/fmt}" >/dev/null 2>&1 || rustup component add "$wanted" --toolchain "$channel"
    done
}

# Installs a program of crates.io into target/tools, unless there is one, and puts it on PATH.
# Usage: install_tool PROGRAM HOW_LONG_THAT_TAKES
install_tool() {
    export PATH="$PATH:$PWD/target/tools/bin"
    command -v "$1" >/dev/null && return
    echo "building $1 into target/tools, once: about $2" >&2
    cargo install --quiet --locked "$1" --root target/tools
}

# Builds the host, for recipes that look at their arguments first.
build_host() {
    "${HOTSHOE_JUST:-just}" --justfile justfile build-host
}

# Replaces the host at its fixed path atomically: one that runs keeps its own file.
# Usage: place_host BUILT_FILE
place_host() {
    local fixed=target/release/hotshoe
    mkdir -p target/release
    [ "$1" -ef $fixed ] || { ln -f "$1" $fixed.new && mv -f $fixed.new $fixed; }
}

# Builds the plugins in $names for hosts, and checks their grants.
build_plugins() {
    build_host
    for name in "${names[@]}"; do
        hotshoe build "plugins/$name"
        hotshoe rbac --offline "plugins/$name" >/dev/null
    done
}

# Chooses the cluster, starts the local control plane if it is that one, and sets KUBECONFIG.
use_cluster() {
    # shellcheck source=deploy/cluster.sh
    . deploy/cluster.sh
}

# === clusters ===

# Applies the CRDs and the host, and waits until it is ready. Usage: deploy [--objects] [CLUSTER=…] [IMG=…]
deploy() {
    local manifest=deploy/install.yaml image
    read_options "$@"
    case ${options[*]} in
    '') ;;
    --objects) manifest=deploy/install-objects.yaml ;;
    *) stop 2 "deploy knows --objects, CLUSTER= and IMG=, and not ${options[*]}; nothing was changed" ;;
    esac
    # shellcheck disable=SC2034 # deploy/cluster.sh reads it
    deploys=yes
    use_cluster
    deploy/install-crds.sh
    image=${IMG:-}
    if [ -z "$image" ]; then
        image=$(kubectl get deployment hotshoe --namespace hotshoe-system --ignore-not-found -o jsonpath='{.spec.template.spec.containers[?(@.name=="hotshoe")].image}')
        [ -z "$image" ] || echo "the image stays the one that is deployed, $image; name another with IMG=" >&2
    fi
    # Not by `hotshoe manifests`: a machine that only deploys an image needs no build of the host.
    sed -E "${image:+s|^( *image: ).*|\1$image|}" "$manifest" | kubectl apply -f -
    kubectl rollout status --namespace hotshoe-system --timeout=120s deployment/hotshoe
}

# Deletes every object of the CRDs, which the host cleans up, and then the host and the CRDs.
undeploy() {
    deploy/delete-parents.sh
    kubectl delete --ignore-not-found -f deploy/install.yaml -f deploy/install-objects.yaml -f crds
    kubectl delete clusterroles,clusterrolebindings --selector app.kubernetes.io/name=hotshoe
}

# === a host on this machine ===

# Sets the variables that plugins here take their configuration from, unless they are set.
set_variables() {
    export MEMCACHED_IMAGE="${MEMCACHED_IMAGE-memcached:1.6-alpine}"
}

# Runs a host with the plugins in $names and with $options; with no names, one for the Plugin objects of the cluster.
run_host() {
    deploy/address-is-free.sh "${options[@]}"
    build_plugins
    use_cluster
    deploy/install-crds.sh
    set_variables
    exec deploy/run.sh "${names[@]}" "${options[@]}"
}

# Builds the plugin $name where no host looks for it, and shows what it would change.
show_changes() {
    build_host
    hotshoe build "plugins/$name" --out "target/shadow/$name.wasm" >&2
    hotshoe shadow "$name" "target/shadow/$name.wasm" "${options[@]}"
}

# Builds and tries the plugin $name at each save, and has the running host activate it.
try_at_each_save() {
    build_host
    use_cluster
    set_variables
    exec target/release/hotshoe dev "plugins/$name" "${options[@]}"
}

# Builds the plugins in $names where hosts look for them.
build_components() {
    build_host
    for name in "${names[@]}"; do hotshoe build "plugins/$name" "${options[@]}"; done
}

# Builds a plugin and has the running host activate it; with --dry-run, only shows what would change. Without a name, all
# are built, and of those that the host runs the changed ones are activated. Usage: reload [NAME] [option…]
reload() {
    if [[ " $* " == *' --dry-run '* ]]; then
        read_plugin "$@"
        mapfile -t options < <(printf '%s\n' "${options[@]}" | grep -vx -- --dry-run)
        show_changes
        return
    fi
    read_plugin_or_all "$@"
    local reloaded=("${options[@]}") plugin=--changed
    [[ ${1:--} == -* ]] || plugin=$name
    options=()
    build_components >&2
    hotshoe reload "$plugin" "${reloaded[@]}"
}

# Follows the lines of the plugin $name in the log of a host; $options may name the host's address.
# The plugin's name is read from the end of a line, or from a JSON member: the text before it may come from a plugin.
follow_log() {
    local log logs=
    [[ ${#options[@]} = 0 || "${options[*]}" =~ ^--listen[=\ ][^\ ]+$ ]] || stop 2 "logs knows --listen HOST:PORT, and not ${options[*]}"
    # shellcheck source=deploy/listen.sh
    . deploy/listen.sh "${options[@]}"
    if [ ! -e "$files.log" ]; then
        for log in target/run/hotshoe*.log; do [ ! -e "$log" ] || logs+=" ${log##*/}"; done
        stop 1 "no host has run here that listens on $address" "target/run has${logs:- no log}" \
            'start one with `./justw run`, or say which one is meant: --listen HOST:PORT'
    fi
    tail -n 1000 -F "$files.log" | sed -unE \
        -e '/^\{/{/"plugin":"'"$name"'"/p;d;}' \
        -e 'h;s/^.* plugin="?([^" ]*)"?( .*)?$/\1/;/^'"$name"'$/{g;p;}'
}

# === tests and generated files ===

# Runs the cases of a plugin, or of all and of the examples, on its component.
# Usage: test_plugins [NAME | examples/NAME] [option of `hotshoe test`…]
test_plugins() {
    local file
    read_plugin_or_all "$@"
    [ ${#names[@]} -eq 1 ] || for file in plugins/examples/*/plugin.yaml; do
        [ ! -e "$file" ] || names+=("examples/$(basename "$(dirname "$file")")")
    done
    build_host
    for name in "${names[@]}"; do
        [ ${#names[@]} -eq 1 ] || echo "$name:" >&2
        hotshoe build "plugins/$name" --out $check >&2
        hotshoe test "plugins/$name" --components $check "${options[@]}"
    done
}

# Runs the unit tests of the host's crates, but for those that `just test-core` tests. Only they use this build, so it is
# compiled incrementally and with few optimisations. The product is always compiled with the profile of the product.
# Usage: test_units 'OPTION OF CARGO…' [argument of `cargo test`…]
test_units() {
    local crate option cargo options=()
    read -ra cargo <<<"$1"
    for crate in hotshoe{,-cluster,-operator,-platform,-registry,-sandbox}; do
        options+=(-p "$crate")
        for option in incremental=true codegen-units=64 opt-level=1; do
            options+=(--config "profile.release.package.$crate.$option")
        done
    done
    cargo test "${cargo[@]}" --lib "${options[@]}" "${@:2}"
}

# Fuzzes one target until it is stopped, guided by coverage. Usage: fuzz TARGET [--] [option of libfuzzer…]
fuzz() {
    local target=$1
    shift
    [ "${1:-}" != -- ] || shift
    install_tool cargo-fuzz 'a minute'
    mkdir -p "target/fuzz/corpus/$target"
    # No sanitizer: there is no unsafe code to check, and a sanitizer would need another compiler.
    RUSTC_BOOTSTRAP=1 cargo fuzz run --release --sanitizer none --features libfuzzer --target-dir target/fuzz \
        "$target" "target/fuzz/corpus/$target" "fuzz/seeds/$target" -- "$@"
}

# Checks licences, advisories and sources of all dependencies.
check_dependencies() {
    local manifest lint allowed=()
    install_tool cargo-deny '5 minutes'
    for lint in unmatched-skip unmatched-skip-root unnecessary-skip license-not-encountered license-exception-not-encountered; do
        allowed+=(-A "$lint")
    done
    for manifest in Cargo.toml plugins/Cargo.toml fuzz/Cargo.toml; do
        cargo deny --manifest-path "$manifest" --config deny.toml check "${allowed[@]}"
    done
}

# Builds the book with this version of mdbook. Usage: build_book VERSION
build_book() {
    install_mdbook "$1"
    target/tools/bin/mdbook build docs
    echo 'the book: target/book/index.html'
}

# Usage: install_mdbook VERSION
install_mdbook() {
    [ "$(target/tools/bin/mdbook --version 2>/dev/null)" != "mdbook v$1" ] || return 0
    echo "building mdbook $1 into target/tools, once: about a minute" >&2
    # Unoptimised: it runs for a second only, so that an optimised build would take longer than it saves.
    CARGO_PROFILE_DEV_DEBUG=false cargo install --quiet --locked --debug --version "$1" mdbook --no-default-features --root target/tools
}

# Writes what a command prints into a file, if the command succeeds. Usage: write FILE COMMAND…
write() {
    "${@:2}" >"$1.new"
    mv "$1.new" "$1"
}

# Writes what the chart has of the host and of each plugin: definitions, and rights with names that its templates replace.
# Usage: write_chart FOLDER FOLDER_OF_DEFINITIONS NAME…
write_chart() {
    local folder=$1 crds=$2 name
    rm -rf "$folder"
    mkdir -p "$folder/host/crds"
    cp "$crds/hotshoe.dev_plugins.yaml" "$folder/host/crds"
    write_chart_rights "$folder/host" --host-only --metrics-secure
    for name in "${@:3}"; do
        mkdir -p "$folder/plugins/$name"
        write_chart_rights "$folder/plugins/$name" --plugin-only "plugins/$name"
        copy_definitions "$name" "$crds" "$folder/plugins/$name/crds"
    done
}

# Writes the rights of a host of all namespaces, and of a host of one. Usage: write_chart_rights FOLDER OPTION…
write_chart_rights() {
    local options=(--offline --webhooks --namespace chart-namespace --host-account chart-account --output json)
    # What RBAC cannot express is noted on standard error, and of these plugins on their pages.
    write "$1/rights.json" hotshoe rbac "${options[@]}" "${@:2}" 2> >(grep -v '^note: ' >&2)
    write "$1/rights-in-one-namespace.json" hotshoe rbac "${options[@]}" --watch-namespace chart-watched "${@:2}" 2> >(grep -v '^note: ' >&2)
}

# Copies the definitions that are generated from a plugin; one of a kind of Kubernetes itself has none.
# Usage: copy_definitions NAME FOLDER_OF_DEFINITIONS FOLDER
copy_definitions() {
    local file
    for file in "$2"/*.yaml; do
        head -n 1 "$file" | grep -qF "plugins/$1 " || continue
        mkdir -p "$3"
        cp "$file" "$3"
    done
}

# Fails if a committed file is not as it was generated now. Usage: compare RECIPE_THAT_WRITES_IT FOLDER GENERATED_FOLDER
compare() {
    local file committed
    for file in "$3"/*; do
        committed=$2/$(basename "$file")
        diff -ru "$committed" "$file" || stop 1 "$committed is not what its source generates; run \`./justw $1\` and commit"
    done
}
