#!/usr/bin/env bash
# Installs what the Spark jobs need besides `make setup`: Java 17 or newer, and requirements-spark.lock in .venv.
# Safe to repeat: installs only what is missing. Prints one line per step.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

# Prints the major version of the java that Spark would run, or nothing if there is none.
java_version() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  { "$java" -version 2>&1 || true; } | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1
}

# The oldest packaged Java that is new enough; the package lists may not be there yet.
java_package() {
  { apt-cache search --names-only '^openjdk-[0-9]+-jre-headless$' 2>/dev/null || true; } |
    sed -nE 's/^openjdk-([0-9]+)-jre-headless.*/\1/p' | sort -n | awk '$1 >= 17 { print; exit }'
}

version=$(java_version)
if [ "${version:-0}" -ge 17 ]; then
  say "Java: $version"
else
  packaged=$(java_package)
  install_packages "openjdk-${packaged:-17}-jre-headless"
  version=$(java_version)
  [ "${version:-0}" -ge 17 ] || die "java is still ${version:-missing}" "unset JAVA_HOME, or point it at Java 17 or newer"
fi

install_lock requirements-spark.lock
touch .venv/stamp-spark
