#!/usr/bin/env bash
# Tests the logic of the plugins in Python, and their SDK, by pytest. Installs it into target/tools/python, once.
# Usage: plugins/test-python.sh [OPTION…], the options being those of pytest
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
./install-python.sh
tools=$PWD/../target/tools/python
for project in */pyproject.toml; do
    folder=$(dirname "$project")
    echo "$folder:"
    (cd "$folder" && PYTHONDONTWRITEBYTECODE=1 "$tools/bin/python" -m pytest --quiet -p no:cacheprovider "$@" tests)
done
