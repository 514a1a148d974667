#!/bin/bash
# Makes the data folder, runs the statements of /docker-entrypoint-initdb.d, then the server with the given options.
set -euo pipefail
if [ ! -d /var/lib/mysql/mysql ]; then
  mariadb-install-db --user=mysql --skip-test-db >/dev/null
  mariadbd --user=mysql --skip-networking "$@" &
  until mariadb-admin ping --silent; do sleep 0.2; done
  cat /docker-entrypoint-initdb.d/*.sql | mariadb
  kill $!
  wait $! || true
fi
exec mariadbd --user=mysql --bind-address=0.0.0.0 "$@"
