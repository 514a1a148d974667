#!/usr/bin/env bash
# Installs what `make test-image` needs besides `make setup` and the image. Safe to repeat. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

install_lock requirements-deploy.lock
touch .venv/stamp-deploy
