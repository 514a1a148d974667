#!/usr/bin/env bash
# Everything a fresh Debian or Ubuntu needs before `relay` runs: system packages, .venv, the locked Python packages.
# Safe to repeat: what is there is left alone. One line for each step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "this is $(uname -s) on $(uname -m)" "the relay runs on Linux, x86-64"

# The newest interpreter that will do: PYTHON if given, else python3, else a numbered one.
usable() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
find_python() {
  local each
  for each in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if usable "$each"; then echo "$each"; return; fi
  done
}

# Prints the packages that are missing; each is told by what it brings, since it may have come from elsewhere.
missing() {
  local python=$1
  if [ -z "$python" ]; then
    echo python3 python3-venv python3-dev
  else
    local version; version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    # A distribution's python splits off venv and headers; the packages carry its number, which need not be python3's.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "python$version-venv"
    [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || echo "python$version-dev"
  fi
  command -v g++ >/dev/null || echo g++
  command -v cc >/dev/null || echo gcc
  echo '#include <zlib.h>' | cc -E -x c - >/dev/null 2>&1 || echo zlib1g-dev
  command -v dpkg-deb >/dev/null || echo dpkg
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
  # The throwaway servers are Debian's packages; elsewhere debootstrap knows where Debian is.
  grep -rqsE '/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d || command -v debootstrap >/dev/null || echo debootstrap
  [ -d /usr/share/zoneinfo/Europe ] || echo tzdata
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
}

python=$(find_python)
mapfile -t packages < <(missing "$python" | tr ' ' '\n')
if [ ${#packages[@]} -gt 0 ]; then
  install_packages "${packages[@]}"
  python=$(find_python)
  [ -n "$python" ] || die "no Python 3.11 or newer here" "install one, or name it: PYTHON=/path/to/python3.12 make setup"
else
  say "system packages: nothing missing"
fi

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  say "creating .venv with $(command -v "$python") ($("$python" --version))"
  rm -rf .venv
  "$python" -m venv .venv || die "$python cannot make a virtual environment" "apt-get install python3-venv"
fi

install_lock requirements.lock
touch .venv/stamp-venv
