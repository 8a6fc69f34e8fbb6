#!/usr/bin/env bash
# Installs what tests plugins in Python, and what packs their SDK, into target/tools/python, once.
# Usage: plugins/install-python.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
tools=$PWD/../target/tools/python
packages="pytest==8.4.2 PyYAML==6.0.3 setuptools==80.9.0"
[ "$(cat "$tools/tests" 2>/dev/null)" != "$packages" ] || exit 0
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    printf 'error: there is no Python 3.10 or newer\n  next:  install it, or name one with the variable PYTHON\n' >&2
    exit 1
fi
echo "installing pytest and setuptools into target/tools/python, once" >&2
[ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
# shellcheck disable=SC2086 # several packages
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check $packages
echo "$packages" >"$tools/tests"
