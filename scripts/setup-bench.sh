#!/usr/bin/env bash
# What `make bench` needs beside `make setup`: matplotlib in .venv. Safe to repeat. One line for each step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

install_lock requirements-bench.lock
touch .venv/stamp-bench
