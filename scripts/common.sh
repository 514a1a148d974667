# Shared by the setup scripts: messages, progress, system packages, locked Python packages.
set -o pipefail  # a step fails if what it shows the progress of does

say() { echo "setup: $*"; }
die() { echo "setup: $1" >&2; echo "setup: hint: $2" >&2; exit 1; }

# Shows what a step does, its newest line of input, and its seconds: in a terminal on one line, elsewhere each 5 s.
show_progress() {
  local step=$1 line="" newest="" next=5 begun=$SECONDS
  local erase=$'\r\e[K'
  [ -t 1 ] || { erase=""; say "$step"; }
  while true; do
    if IFS= read -r -t 1 line; then newest=": $line"; elif [ $? -le 128 ]; then break; fi
    local seconds=$((SECONDS - begun))
    if [ -t 1 ]; then
      line="setup: $step$newest, $seconds s"
      printf '%s%s\r' "$erase" "${line:0:79}"  # other programs may write over it
    elif [ $seconds -ge $next ]; then
      say "$step$newest, $seconds s"
      next=$((seconds + 5))
    fi
  done
  printf %s "$erase"
  say "$step$newest, $((SECONDS - begun)) s"
}

# Turns the messages of apt-get into lines for show_progress.
apt_steps() {
  local kind package percent text
  while IFS=: read -r kind package percent text; do
    case $kind in
      dlstatus) echo "downloading, ${percent%.*} %" ;;
      pmstatus) echo "${package%%:*}, ${percent%.*} %" ;;
    esac
  done
}

# Turns the messages of pip into lines for show_progress.
pip_steps() {
  local word rest file="" bytes total names
  while read -r word rest; do
    case $word in
      Collecting) echo "${rest%%[^A-Za-z0-9._-]*}" ;;
      Downloading) file=${rest%% *} ;;
      Progress)
        read -r bytes _ total <<<"$rest"
        echo "$file, $((bytes / 1000000)) of $(( (total + 999999) / 1000000 )) MB"
        ;;
      Building) echo "building ${rest##*: }" ;;
      Installing) read -ra names <<<"${rest#*: }"; echo "unpacking ${#names[@]} packages" ;;
    esac
  done
}

install_packages() {
  local as_root=()
  command -v apt-get >/dev/null || die "missing: $*, and there is no apt-get" "install what corresponds by hand, then repeat"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing: $*, and neither root nor sudo" "as root: apt-get install $*"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  local install=("${apt[@]}" -o APT::Status-Fd=1 install --no-install-recommends -y "$@")
  local step="installing system packages: $*"
  if ! "${install[@]}" 2>/dev/null | apt_steps | show_progress "$step"; then
    say "updating the package lists"
    "${apt[@]}" update || die "apt-get update failed" "look at the sources in /etc/apt and at the network"
    "${install[@]}" | apt_steps | show_progress "$step" || die "could not install: $*" "apt-get install $*"
  fi
}

# Installs a lock file into .venv, unless this version of it was installed last.
install_lock() {
  local lock=$1 wanted
  wanted=$(sha256sum "$lock" | cut -c 1-64)
  if [ "$(cat ".venv/$lock.sha256" 2>/dev/null)" = "$wanted" ]; then
    say "Python packages: as locked in $lock"
    return
  fi
  local bar  # pip reports downloads to programs since 24.1
  bar=$(.venv/bin/python -c 'import pip; print("raw" if tuple(map(int, pip.__version__.split(".")[:2])) >= (24, 1) else "off")')
  # Python compiles the modules that are used when they are.
  .venv/bin/python -m pip install --progress-bar "$bar" --no-compile --disable-pip-version-check --require-hashes \
    --requirement "$lock" | pip_steps | show_progress "installing $lock" ||
    die "could not install $lock" "look at the lines above; a proxy or an index of your own goes into pip's own configuration"
  echo "$wanted" >".venv/$lock.sha256"
}
