#!/usr/bin/env bash
# Installs what a fresh Debian or Ubuntu needs to build and run `relay`: system packages, .venv, requirements-run.lock.
# Safe to repeat: installs only what is missing. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

case $(uname -s)-$(uname -m) in
  Linux-x86_64 | Linux-aarch64) ;;
  *) die "this is $(uname -s) on $(uname -m)" "the relay runs on Linux, x86-64 and aarch64" ;;
esac

# The interpreter: PYTHON if given, else python3 if it is new enough, else the newest numbered one.
usable() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
find_python() {
  local each
  for each in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if usable "$each"; then echo "$each"; return; fi
  done
}

# Prints the missing packages. It checks for their files, which may have come from elsewhere.
missing() {
  local python=$1
  if [ -z "$python" ]; then
    echo python3 python3-venv python3-dev
  else
    local version; version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    # Distributions package venv and headers separately, under the interpreter's version, which may not be python3's.
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "python$version-venv"
    [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || echo "python$version-dev"
  fi
  command -v g++ >/dev/null || echo g++
  command -v cc >/dev/null || echo gcc
  echo '#include <zlib.h>' | cc -E -x c - >/dev/null 2>&1 || echo zlib1g-dev
  command -v dpkg-deb >/dev/null || echo dpkg
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
  # The throwaway servers are Debian's packages; on other systems debootstrap knows Debian's mirror.
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

install_lock requirements-run.lock
touch .venv/stamp-run
