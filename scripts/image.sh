#!/usr/bin/env bash
# Builds the image binlog-relay with docker or podman: scripts/image.sh [amd64|arm64].
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/engine.sh

arch=${1:-$host}
case $arch in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *) die "no image for the processor $arch" "there are amd64 and arm64" ;;
esac
if [ "$arch" != "$host" ] && [ ! -e "/proc/sys/fs/binfmt_misc/qemu-$machine" ]; then
  install_packages qemu-user-static binfmt-support
fi

# Prints the settings of pip of this level that say where packages are.
pip_settings() {
  python3 -m pip config list | sed -nE "s/^$1\.\.?(index-url|extra-index-url|proxy|trusted-host)='(.*)'$/\1 = \2/p" | grep -v file: || true
}
settings=$(mktemp)
trap 'rm -f "$settings"' EXIT
secrets=(--secret "id=pip,src=$settings")
echo "[global]" >"$settings"
certificates=${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}
if [ -e "$certificates" ]; then
  secrets+=(--secret "id=certificates,src=$certificates")
  echo "cert = /run/secrets/certificates" >>"$settings"
fi
{ pip_settings global; echo "[install]"; pip_settings :env:; } >>"$settings"

for_image=$(base_of "$arch")
for_build=$(base_of "$host")
# podman 4 does not set the names of both platforms for FROM.
"${build[@]}" --platform "linux/$arch" --build-arg "BUILDPLATFORM=linux/$host" --build-arg "TARGETPLATFORM=linux/$arch" \
  --build-arg "BUILDER=$for_build" --build-arg "BASE=$for_image" "${secrets[@]}" \
  --tag "binlog-relay:$arch" .
[ "$arch" != "$host" ] || $engine tag "binlog-relay:$arch" binlog-relay:latest
echo "image: binlog-relay:$arch, $($engine image inspect --format '{{.Size}}' "binlog-relay:$arch" | awk '{printf "%.1f", $1 / 1e6}') MB"
