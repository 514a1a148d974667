#!/usr/bin/env bash
# Installs what `make bench` needs besides `make setup`: matplotlib and peers in .venv, and a JDK of version 17 or later,
# which compiles bench/Debezium.java. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

if ! command -v javac > /dev/null; then
  install_packages openjdk-17-jdk-headless
fi
install_lock requirements-bench.lock
touch .venv/stamp-bench
