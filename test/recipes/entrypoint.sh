#!/usr/bin/env bash
# The entry point of the container: a cluster is made once, the cache becomes active, passwords are asked for.
#
# usage: entrypoint.sh ENTRYPOINT DIR
#   DIR       an empty directory, on a short path; the private server's bin is first in PATH
#
# Last line `N passed, N failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

entrypoint=$1
dir=$2
server=

trap '[ -z "$server" ] || kill -INT "$server" 2>/dev/null || true' EXIT

export PGDATA=$dir/volume/data FLASHCACHE_FILE=$dir/flash/cache FLASHCACHE_SIZE=1MB
mkdir -m 0700 "$dir/volume" "$dir/flash"

# Only a socket, and no bound by io_uring, which may be forbidden here.
start() {
  "$entrypoint" postgres -c listen_addresses= -c "unix_socket_directories=$dir" -c pg_flashcache.io_timeout=0 >>"$dir/log" 2>&1 &
  server=$!
  while kill -0 "$server" 2>/dev/null && ! pg_isready --quiet -h "$dir"; do sleep 0.1; done
}

stop() {
  kill -INT "$server"
  wait "$server"
  server=
}

sql() { psql -X -At -h "$dir" -U postgres -d postgres -c "$1"; }
gives() { diff <(echo "$1") <(sql "$2"); }
refused() { ! "$entrypoint" postgres; }
none_made() { [ -z "$(ls -A "$dir/volume")" ]; }
no_password() { ! tr '\0' '\n' <"/proc/$server/environ" | grep -q secret; }

check "no password, no cluster" refused
check "nothing is left of it" none_made
echo secret >"$dir/password"
export POSTGRES_PASSWORD_FILE=$dir/password
start
check "the extension is there" gives pg_flashcache "SELECT extname FROM pg_extension WHERE extname = 'pg_flashcache'"
check "the cache becomes active" fc_cluster_wait_active "$dir"
check "its file and size are the environment's" gives "$FLASHCACHE_FILE|1MB" "SELECT current_setting('pg_flashcache.file'), current_setting('pg_flashcache.size')"
check "others are asked for a password" gives scram-sha-256 "SELECT DISTINCT auth_method FROM pg_hba_file_rules WHERE type = 'host'"
check "passwords are kept as scram" gives t "SELECT rolpassword LIKE 'SCRAM-SHA-256\$%' FROM pg_authid WHERE rolname = 'postgres'"
check "the server has not got the password" no_password
check "a table" sql "CREATE TABLE t AS SELECT 1 AS a"
check "ends in order" stop
unset POSTGRES_PASSWORD_FILE
start
check "again, without a password: the same cluster" gives 1 "SELECT a FROM t"
check "ends again" stop

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
