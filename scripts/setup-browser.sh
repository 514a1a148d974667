#!/usr/bin/env bash
# Installs what the page's tests need besides `make setup`: chromium, fonts for all writing systems, and
# playwright in .venv.
# Safe to repeat: installs only what is missing. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# The names that tests/browser/chromium.py looks for, in its order.
find_chromium() { command -v chromium || command -v chromium-browser || true; }

# Prints the missing packages; a font is recognized by a character that it has.
missing() {
  [ -n "$(find_chromium)" ] || echo chromium
  if ! command -v fc-list >/dev/null; then
    echo fontconfig fonts-dejavu-core fonts-noto-color-emoji
    return
  fi
  [ -n "$(fc-list ':charset=5d0 627')" ] || echo fonts-dejavu-core  # Hebrew and Arabic
  [ -n "$(fc-list ':charset=1f680')" ] || echo fonts-noto-color-emoji
}

mapfile -t packages < <(missing | tr ' ' '\n')
[ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}"
chromium=$(find_chromium)
[ -n "$chromium" ] || die "no chromium in PATH" "install Debian's package chromium"
version=$("$chromium" --version 2>/dev/null) || die "$chromium does not run" "$chromium --version says why"
say "browser: $version"

install_lock requirements-browser.lock
touch .venv/stamp-browser
