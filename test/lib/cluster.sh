#!/usr/bin/env bash
# Sourced: a throw-away cluster for the shell-driven suites. (The TAP suite uses PostgreSQL::Test::Cluster instead.)
#
#   fc_cluster_init DIR [CONF_LINE...]   initdb with checksums; settings for a small, repeatable server
#   fc_cluster_cache DIR SLOTS           adds a cache of so many slots, every hit compared with the disk
#   fc_cluster_start DIR, fc_cluster_stop DIR
#   fc_cluster_wait_active DIR           until the cache has attached; fc_cluster_wait_state DIR STATE until it says that
#   fc_cluster_psql DIR [ARGUMENT...]    psql as superuser, stops at the first error
#
# DIR/data is the data directory, DIR/log the server's log, DIR/flash the cache file. The server listens on a socket in
# DIR alone: any number of such clusters can run beside each other, and no port of the machine is taken.
# FC_EXTRA_CONF in the environment holds lines for every cluster; what a suite sets itself wins over them.
# Expects the private copy's bin first in PATH.

export FC_CLUSTER_PORT=5432 # the name of the socket, nothing more

fc_cluster_init() {
  local dir=$1
  shift
  mkdir -p "$dir"
  initdb -D "$dir/data" --data-checksums --no-locale --encoding=UTF8 --auth=trust --username=postgres --no-sync \
    --no-instructions >"$dir/initdb.log"
  {
    echo "port = $FC_CLUSTER_PORT"
    echo "listen_addresses = ''"
    echo "unix_socket_directories = '$dir'"
    echo "fsync = off" # a crash of the machine is not what these suites are about
    echo "log_line_prefix = '%m %b[%p] %q%a '"
    [ $# -eq 0 ] || printf '%s\n' "$@"
    echo "${FC_EXTRA_CONF:-}"
  } >>"$dir/data/postgresql.conf"
}

fc_cluster_cache() {
  local dir=$1 slots=$2
  {
    echo "shared_preload_libraries = 'pg_flashcache'"
    echo "pg_flashcache.file = '$dir/flash'"
    echo "pg_flashcache.size = '$((slots * 8))kB'"
    cat "${BASH_SOURCE[0]%/*}/cache.conf"
  } >>"$dir/data/postgresql.conf"
}

fc_cluster_start() {
  if ! pg_ctl --wait --silent --pgdata="$1/data" --log="$1/log" start; then
    tail -n 30 "$1/log" >&2
    return 1
  fi
}

fc_cluster_stop() {
  pg_ctl --wait --silent --pgdata="$1/data" --mode="${2:-fast}" stop
}

fc_cluster_psql() {
  local dir=$1
  shift
  psql -X --no-align --tuples-only --quiet --set=ON_ERROR_STOP=1 --host="$dir" --port="$FC_CLUSTER_PORT" \
    --username=postgres --dbname=postgres "$@"
}

fc_cluster_wait_state() {
  local now='' tries
  # A bound against waiting for ever, not a measurement.
  for ((tries = 0; tries < 600; tries++)); do
    now=$(fc_cluster_psql "$1" -c "SELECT state || coalesce(': ' || reason, '') FROM pg_stat_flashcache")
    [ "${now%%:*}" != "$2" ] || return 0
    sleep 0.1
  done
  echo "the cache did not become $2: state $now" >&2
  return 1
}

fc_cluster_wait_active() { fc_cluster_wait_state "$1" active; }
