#!/usr/bin/env bash
# Prints a summary in Markdown of what `make coverage` printed: the coverage, the result and the slowest tests.
set -euo pipefail
cd "$(dirname "$0")/.."
log=$1

block() { printf '### %s\n\n```\n' "$1"; cat; printf '```\n\n'; }

{ grep -E '^=+ .*(passed|failed|error).* =+$' "$log" || true; } | tail -n 1 | block Tests
sed -nE '/^=+ slowest .*durations/,/^=+ (short|[0-9]+ )/{/^=/!p}' "$log" | block 'Slowest tests'
{ grep -E '^TOTAL ' "$log" || true; } | block Coverage
printf '<details><summary>by module</summary>\n\n'
.venv/bin/python -m coverage report --format markdown
printf '\n</details>\n'
