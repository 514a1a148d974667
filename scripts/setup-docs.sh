#!/usr/bin/env bash
# Installs what `make docs` needs besides `make setup`: Sphinx in .venv. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

install_lock requirements-docs.lock
touch .venv/stamp-docs
