#!/usr/bin/env bash
# Gets the programs that the end-to-end tests run beside the host, once: packages of Debian, what is built with Go, and
# what makes a release, which is made without a network.
# Usage: tests/programs.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tests/install.sh registry docker-registry skopeo wget
tests/install.sh prometheus prometheus promtool
tests/install.sh chromium chromium-headless-shell
tests/bundle.sh
deploy/dist.sh --tools
