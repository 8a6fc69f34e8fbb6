#!/usr/bin/env bash
# Tests the logic of the plugins in JavaScript, and their SDK, in Node. Installs the packages that they depend on.
# Usage: plugins/test-js.sh [OPTION…], the options being those of `node --test`
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
if ! command -v npm >/dev/null; then
    printf 'error: there is no npm\n  next:  install Node.js 20 or newer, with npm\n' >&2
    exit 1
fi
for package in */package.json; do
    folder=$(dirname "$package")
    if [ "$folder/package-lock.json" -nt "$folder/node_modules/.package-lock.json" ]; then
        echo "installing the npm packages of plugins/$folder" >&2
        (cd "$folder" && npm ci --no-audit --no-fund --loglevel error)
        touch "$folder/node_modules/.package-lock.json"
    fi
done
exec node --test "$@" */test/*.test.js
