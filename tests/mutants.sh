#!/usr/bin/env bash
# Shows that removing any single condition of the gate makes some test fail: each mutant of the
# files below must be caught by a test, but for those in tests/mutants.toml, which say why.
#
# The files are pure, so they are compiled without the rest of the host, in seconds: copied into a
# crate of their own under target/mutants, with their own tests.
# Usage: tests/mutants.sh [option of `cargo mutants`…]     (it takes some ten minutes)
#        tests/mutants.sh --compile     (only whether that crate still compiles)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
judged="access adoption check claim_policy diff grant keys never ownership pattern pod_containers pod_grant pod_policy pod_security pod_volumes service_policy shape"
# What those are written in terms of.
needed="decision error names object projection"
crate=$root/target/mutants/gate
# Beside the other, so that it does not take it away from under a run.
[ "${1:-}" != --compile ] || crate=$root/target/mutants/compiling
export PATH="$PATH:$root/target/tools/bin"
# Whatever the workspace is built with, this crate is compiled plainly.
unset CARGO_BUILD_TARGET CARGO_TARGET_DIR RUSTFLAGS

if [ "${1:-}" != --compile ] && ! command -v cargo-mutants >/dev/null; then
    echo "building cargo-mutants into target/tools, once: about 3 minutes" >&2
    cargo install --quiet --locked cargo-mutants --root "$root/target/tools"
fi

rm -rf "$crate"
mkdir -p "$crate/src" "$crate/.cargo"
echo '#![allow(dead_code, reason = "the files serve more than the gate")]' >"$crate/src/lib.rs"
for module in $judged $needed; do
    [ -e "$root/host/src/$module.rs" ] || continue
    cp "$root/host/src/$module.rs" "$crate/src/"
    echo "pub mod $module;"
done >>"$crate/src/lib.rs"
cp "$root/tests/mutants.toml" "$crate/.cargo/mutants.toml"
cp "$root/Cargo.lock" "$crate/"
{
    printf '[package]\nname = "hotshoe"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n'
    # The versions are the workspace's.
    for dependency in proptest schemars serde serde_json sha2 thiserror; do grep "^$dependency = " "$root/Cargo.toml"; done
    printf '\n[lib]\ndoctest = false\n\n[profile.dev]\ndebug = false\nopt-level = 1\n'
} >"$crate/Cargo.toml"

cd "$crate"
[ "${1:-}" != --compile ] || exec cargo check --quiet --lib --profile test --target-dir ../compiled
status=0
cargo mutants --no-shuffle --colors never --minimum-test-timeout 20 $(printf -- '--file src/%s.rs ' $judged) "$@" -- --lib || status=$?
# 3: some made a test run out of its time, so that they were noticed as well; others may have been missed beside them.
[ "$status" != 3 ] || [ -s mutants.out/missed.txt ] || exit 0
exit "$status"
