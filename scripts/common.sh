# What the set-up scripts share: how they speak, system packages, locked Python packages.

say() { echo "setup: $*"; }
die() { echo "setup: $1" >&2; echo "setup: hint: $2" >&2; exit 1; }

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

# Installs a lock file into .venv, unless that is what was installed from it last.
install_lock() {
  local lock=$1 wanted
  wanted=$(sha256sum "$lock" | cut -c 1-64)
  if [ "$(cat ".venv/$lock.sha256" 2>/dev/null)" = "$wanted" ]; then
    say "Python packages: as locked in $lock"
    return
  fi
  say "installing the packages of $lock into .venv"
  .venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --require-hashes --requirement "$lock" ||
    die "could not install $lock" "look at the lines above; a proxy or an index of your own goes into pip's own configuration"
  echo "$wanted" >".venv/$lock.sha256"
}
