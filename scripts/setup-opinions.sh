#!/usr/bin/env bash
# Installs what `make opinions` needs besides `make setup`: other parsers of statements in .venv, and a JDK of version
# 17 or later, which compiles tests/opinions/Debezium.java. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

if ! command -v javac > /dev/null; then
  install_packages openjdk-17-jdk-headless
fi
install_lock requirements-opinions.lock
touch .venv/stamp-opinions
