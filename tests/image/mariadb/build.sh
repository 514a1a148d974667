#!/usr/bin/env bash
# Has the image mariadb:11.8: the public one, or where no registry answers a stand-in of Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. scripts/engine.sh

name=docker.io/library/mariadb:11.8
$engine image inspect $name >/dev/null 2>&1 || $engine pull --quiet $name 2>/dev/null ||
  "${build[@]}" --build-arg "BASE=$(base_of "$host")" --tag $name tests/image/mariadb
