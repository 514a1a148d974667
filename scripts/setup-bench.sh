#!/usr/bin/env bash
# Installs what `make bench` needs besides `make setup`: matplotlib in .venv. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

install_lock requirements-bench.lock
touch .venv/stamp-bench
