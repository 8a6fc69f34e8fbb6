#!/usr/bin/env bash
# Tests the logic of the plugins in Python, and their SDK, by pytest. Installs it into target/tools/python, once.
# Usage: plugins/test-python.sh [OPTION…], the options being those of pytest
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
tools=$PWD/../target/tools/python
packages="pytest==8.4.2 PyYAML==6.0.3"
if [ "$(cat "$tools/tests" 2>/dev/null)" != "$packages" ]; then
    python=${PYTHON:-python3}
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        printf 'error: there is no Python 3.10 or newer\n  next:  install it, or name one with the variable PYTHON\n' >&2
        exit 1
    fi
    echo "installing pytest into target/tools/python, once" >&2
    [ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
    # shellcheck disable=SC2086 # several packages
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check $packages
    echo "$packages" >"$tools/tests"
fi
for project in */pyproject.toml; do
    folder=$(dirname "$project")
    echo "$folder:"
    (cd "$folder" && PYTHONDONTWRITEBYTECODE=1 "$tools/bin/python" -m pytest --quiet -p no:cacheprovider "$@" tests)
done
