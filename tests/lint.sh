#!/bin/sh
# Checks the scripts by shellcheck, and the workflows in .github by actionlint, which also gives their scripts to shellcheck.
# Gets both into target/tools, once: the former is Debian's package, and the latter is built with Go in some seconds.
# Usage: tests/lint.sh
# Exit codes: 0 nothing is wrong, 1 something is, or a tool is not installed (stderr says why).
set -eu

version=v1.7.12
cd "$(dirname "$0")/.."
# shellcheck source=tests/script.sh
. tests/script.sh
bin=$PWD/target/tools/bin
PATH=$PATH:$PWD/target/tools/lint/bin
tests/install.sh lint shellcheck

if [ "$("$bin/actionlint" --version 2>/dev/null | head -n 1)" != $version ]; then
    echo "building actionlint $version into target/tools, once" >&2
    begin_go "$bin/.actionlint.lock" actionlint
    GOBIN="$bin" go install -trimpath -gcflags=all=-dwarf=false \
        -ldflags "-s -w -X github.com/rhysd/actionlint.version=$version" "github.com/rhysd/actionlint/cmd/actionlint@$version" ||
        fail_go actionlint tests/lint.sh
fi

# What is tried out beside the repository's files is checked too, before it is committed.
git ls-files -z --cached --others --exclude-standard -- .ci '*.sh' justw | xargs -0 shellcheck --external-sources --severity=warning
"$bin/actionlint" -shellcheck "$(command -v shellcheck)"
