#!/usr/bin/env bash
# Everything a fresh Debian or Ubuntu needs before `relay` runs: system packages, .venv, the locked Python packages.
# Safe to repeat: what is there is left alone. One line for each step.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*"; }
die() { echo "setup: $1" >&2; echo "setup: hint: $2" >&2; exit 1; }

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

install_packages() {
  local as_root=()
  command -v apt-get >/dev/null || die "missing: $*, and there is no apt-get" "install what corresponds by hand, then repeat"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing: $*, and neither root nor sudo" "as root: apt-get install $*"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  say "installing system packages: $*"
  if ! "${apt[@]}" install --no-install-recommends -y "$@" >/dev/null 2>&1; then
    say "updating the package lists"
    "${apt[@]}" update || die "apt-get update failed" "look at the sources in /etc/apt and at the network"
    "${apt[@]}" install --no-install-recommends -y "$@" >/dev/null || die "could not install: $*" "apt-get install $*"
  fi
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

wanted=$(sha256sum requirements.lock | cut -c 1-64)
if [ "$(cat .venv/lock.sha256 2>/dev/null)" != "$wanted" ]; then
  say "installing the packages of requirements.lock into .venv"
  .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock ||
    die "could not install requirements.lock" "look at the lines above; a proxy or an index of your own goes into pip's own configuration"
  echo "$wanted" >.venv/lock.sha256
else
  say "Python packages: as locked"
fi
touch .venv/stamp-venv
