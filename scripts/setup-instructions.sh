#!/usr/bin/env bash
# Installs what `make bench-instructions` needs besides `make setup`: Valgrind. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

command -v valgrind >/dev/null || install_packages valgrind
touch .venv/stamp-instructions
