#!/usr/bin/env bash
# What `make audit` needs beside `make setup`: pip-audit in .venv. Safe to repeat. One line for each step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

install_lock requirements-audit.lock
touch .venv/stamp-audit
