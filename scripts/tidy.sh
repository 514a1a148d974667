#!/usr/bin/env bash
# Runs clang-tidy on the given sources, with the settings of .clang-tidy. Prints nothing if there are no findings.
# Its counts on stderr, such as those of suppressed warnings, are only shown if it fails.
cd "$(dirname "$0")/.."
output=$(.venv/bin/clang-tidy --quiet "$@" -- -std=c++17 -I native 2>&1) || { echo "$output"; exit 1; }
