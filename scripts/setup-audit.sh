#!/usr/bin/env bash
# Installs what `make audit` needs besides `make setup`: pip-audit in .venv. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

install_lock requirements-audit.lock
touch .venv/stamp-audit
