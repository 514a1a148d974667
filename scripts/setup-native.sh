#!/usr/bin/env bash
# Builds relay._native in place, and makes .venv/bin/relay run this clone. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# pip shows what setup.py prints only together with everything else.
log=.venv/native.log
rm -f relay/_native*.so
if ! .venv/bin/python -m pip install --verbose --no-index --no-build-isolation --no-deps --editable . 2>&1 | tee "$log" |
  sed -nu 's/^ *\([0-9]* of [0-9]* units\)$/\1/p' | show_progress "building relay._native"; then
  grep -v -e ' -fPIC ' -e ' of [0-9]* units$' "$log" >&2 || true
  die "could not build relay._native" "look at the lines above"
fi
touch .venv/stamp-native
