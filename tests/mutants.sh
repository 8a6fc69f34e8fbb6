#!/usr/bin/env bash
# Shows that removing any single condition of the gate makes some test fail: each mutant of the
# files below must be caught by a test, but for those in tests/mutants*.toml, which say why.
#
# Most files are in hotshoe-core, so neither kube nor wasmtime is compiled for them. Those of the other crates come last.
# Usage: tests/mutants.sh [option of `cargo mutants`…]     (hours on two cores; `--shard 1/20` runs a part)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PATH="$PATH:$root/target/tools/bin"
unset CARGO_BUILD_TARGET CARGO_TARGET_DIR RUSTFLAGS
# No backtrace is read here. `PROPTEST_CASES=256` tries a mutant with as many random cases as the tests have otherwise.
export CARGO_PROFILE_DEV_DEBUG=false PROPTEST_CASES="${PROPTEST_CASES:-64}"

if ! command -v cargo-mutants >/dev/null; then
    echo "building cargo-mutants into target/tools, once: about 3 minutes" >&2
    cargo install --quiet --locked cargo-mutants --root "$root/target/tools"
fi

cd "$root"
# Usage: run FOLDER CONFIG PACKAGE [option of `cargo mutants`…] -- [filter of tests…]
run() {
    local folder=target/mutants/$1 config=$2 package=$3 status=0
    shift 3
    mkdir -p "$folder"
    cargo mutants --package "$package" --cargo-arg=--lib --config "$config" --output "$folder" --no-shuffle \
        --colors never --minimum-test-timeout 20 "$@" || status=$?
    # 3: some made a test run out of its time, so that they were noticed as well; others may have been missed beside them.
    [ "$status" != 3 ] || [ -s "$folder/mutants.out/missed.txt" ] || return 0
    return "$status"
}

failed=
run core tests/mutants.toml hotshoe-core --jobs 2 "$@" || failed=$?
run cluster tests/mutants-host.toml hotshoe-cluster "$@" -- -- checked_apply:: || failed=$?
run registry tests/mutants-host.toml hotshoe-registry "$@" || failed=$?
run server tests/mutants-host.toml hotshoe "$@" -- -- server:: || failed=$?
exit "${failed:-0}"
