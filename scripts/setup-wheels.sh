#!/usr/bin/env bash
# Installs what `make wheels` needs besides `make setup`: zig and auditwheel in .venv. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

install_lock requirements-wheels.lock
touch .venv/stamp-wheels
