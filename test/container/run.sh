#!/usr/bin/env bash
# The server in a container: its root cannot be written to, what is written lies on volumes, and a seccomp profile takes
# away the newer system calls. Needs root, who may mount.
#
# usage: run.sh DIR USER
#   DIR     an empty directory
#   USER    whom the servers run as
#
# Last line `N passed, N failed`. Expects the private server's bin first in PATH. Everything that is mounted is seen by
# nobody else, and ends with the script.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

if [ "${FC_CONTAINER:-}" != inside ]; then
  FC_CONTAINER=inside exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "$@"
fi

dir=$1
user=$2
volume=$dir/volume

as_user() {
  runuser -u "$user" -- "$@"
}

# The functions of cluster.sh, as the user.
# shellcheck disable=SC2016  # expanded by the inner shell
cluster() {
  as_user env PATH="$PATH" FC_EXTRA_CONF="${FC_EXTRA_CONF:-}" bash -c '. "$0"; "$@"' "$here/../lib/cluster.sh" "$@"
}

sql() {
  cluster fc_cluster_psql "$volume" -c "$1"
}

view() {
  sql "SELECT state, reason FROM pg_stat_flashcache"
}

warnings() {
  grep -E 'WARNING:.*flash' "$volume/log" | grep -v 'uses a file on the same file system as' | sed 's/.*WARNING: *//' || true
}

# start [ERRNO CALLS]: the server with an empty log, perhaps without some system calls
start() {
  as_user truncate --size=0 "$volume/log"
  if [ $# -gt 0 ]; then
    cluster "$here/../lib/without-calls.py" "$1" "$2" pg_ctl --wait --silent --pgdata="$volume/data" --log="$volume/log" start
  else
    cluster fc_cluster_start "$volume"
  fi
}

stop() {
  cluster fc_cluster_stop "$volume"
}

stop_all() {
  stop >/dev/null 2>&1 || true
}

mkdir -p "$volume" "$dir/flash" "$dir/scratch"
# Made before, as in an image.
chown "$user" "$dir" "$dir/flash"
# DIR may lie on another mount than the root does, and belongs to it here.
mount --bind "$dir" "$dir"
mount -t tmpfs -o "mode=0700,uid=$(id -u "$user")" tmpfs "$volume"
mount -t tmpfs -o "mode=0700,uid=$(id -u "$user")" tmpfs "$dir/scratch"
# What is mounted elsewhere, volumes among it, stays as it is.
mount -o remount,bind,ro "$dir"
mount -o remount,bind,ro /
trap stop_all EXIT
cd "$volume"
if as_user touch "$dir/flash/new" 2>/dev/null; then
  is "the root is read-only" no yes
fi

# So many buffers that a scan of 100 pages takes no ring of its own.
cluster fc_cluster_init "$volume" "shared_buffers = 4MB" "autovacuum = off" "bgwriter_lru_maxpages = 0" "max_parallel_workers_per_gather = 0"
cluster fc_cluster_cache "$volume" 1024
conf=$volume/data/postgresql.conf

# Does this kernel tell what it holds? Asked about a file of the server's on the same file system.
asks_kernel() {
  as_user python3 - "$volume/data/PG_VERSION" <<'END'
import ctypes, os, sys
asked = (ctypes.c_uint64 * 2)(0, 4096)
answer = (ctypes.c_uint64 * 5)()
sys.exit(ctypes.CDLL(None).syscall(451, os.open(sys.argv[1], os.O_RDONLY), asked, answer, 0) != 0)
END
}

# ---- the file on the root ----

echo "pg_flashcache.file = '$dir/flash/cache'" >>"$conf"
start
reason="could not open \"$dir/flash/cache\": Read-only file system"
sql "CREATE EXTENSION pg_flashcache"
is "file on a read-only root: one warning" "$(warnings)" "pg_flashcache is off: $reason"
is "file on a read-only root: with a hint" \
  "$(grep -cF 'HINT:  The file system is mounted read-only. pg_flashcache_enable() tries at once.' "$volume/log")" 1
is "file on a read-only root: the view says so" "$(view)" "off|$reason"
is "file on a read-only root: the server works" \
  "$(sql "CREATE TABLE t AS SELECT n FROM generate_series(1, 1000) n; CHECKPOINT; SELECT sum(n) FROM t" | tail -n 1)" 500500
is "file on a read-only root: enabled in vain" \
  "$(sql "SELECT pg_flashcache_enable()" 2>&1 | grep -c "could not be enabled: could not open")" 1
sql "DROP TABLE t"
stop

# ---- the file on a volume, with and without the newer system calls ----

echo "pg_flashcache.file = '$dir/scratch/cache'" >>"$conf"

# Reads a table of 100 pages from flash; prints hits, misses, pages left to the kernel, whether some were read ahead.
read_from_flash() {
  sql "CREATE EXTENSION IF NOT EXISTS pg_buffercache" 2>/dev/null
  sql "DROP TABLE IF EXISTS t, filler" 2>/dev/null
  sql "CREATE TABLE t (v text); ALTER TABLE t ALTER v SET STORAGE PLAIN;
    INSERT INTO t SELECT repeat('x', 5000) FROM generate_series(1, 100); SELECT count(*) FROM t;
    CREATE UNLOGGED TABLE filler (v text); ALTER TABLE filler ALTER v SET STORAGE PLAIN;
    INSERT INTO filler SELECT repeat('x', 5000) FROM generate_series(1, 1024)" >/dev/null
  sql "VACUUM t"
  sql "VACUUM filler"
  sql "CREATE OR REPLACE FUNCTION push_out() RETURNS void AS \$\$
    BEGIN
      FOR blk IN 0 .. 1023 LOOP
        PERFORM 1 FROM filler WHERE ctid = format('(%s,1)', blk)::tid;
        IF blk % 16 = 0 THEN
          -- the writer answers once a round
          PERFORM pg_flashcache_enable(), pg_flashcache_enable();
        END IF;
      END LOOP;
    END \$\$ LANGUAGE plpgsql;
    CREATE OR REPLACE FUNCTION to_flash() RETURNS void AS \$\$
    BEGIN
      FOR i IN 1 .. 50 LOOP
        PERFORM push_out();
        IF (SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('t')) = 100 AND
          NOT EXISTS (SELECT FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0) THEN
          RETURN;
        END IF;
        PERFORM count(*) FROM t;
      END LOOP;
      RAISE 't does not come to flash';
    END \$\$ LANGUAGE plpgsql;
    CREATE OR REPLACE FUNCTION measure() RETURNS text AS \$\$
    DECLARE
      a record;
      b record;
    BEGIN
      FOR i IN 1 .. 2 LOOP
        PERFORM to_flash();
        SELECT * INTO a FROM pg_flashcache_stat();
        PERFORM count(v) FROM t;
        SELECT * INTO b FROM pg_flashcache_stat();
      END LOOP;
      RETURN format('%s hits, %s misses, %s left to the kernel, %s', b.hits - a.hits, b.misses - a.misses,
        b.os_cache_hits - a.os_cache_hits,
        CASE WHEN b.prefetches > a.prefetches THEN 'read ahead' ELSE 'none read ahead' END);
    END \$\$ LANGUAGE plpgsql;
    -- the last page first, which is no stream
    CREATE OR REPLACE FUNCTION measure_backwards() RETURNS text AS \$\$
    DECLARE
      a record;
      b record;
    BEGIN
      SELECT * INTO a FROM pg_flashcache_stat();
      FOR blk IN REVERSE 99 .. 0 LOOP
        PERFORM 1 FROM t WHERE ctid = format('(%s,1)', blk)::tid;
      END LOOP;
      SELECT * INTO b FROM pg_flashcache_stat();
      RETURN CASE WHEN b.os_cache_hits - a.os_cache_hits >= 100 THEN 'from the kernel'
        WHEN b.os_cache_hits = a.os_cache_hits AND b.hits - a.hits >= 100 THEN 'from flash' ELSE 'from both' END;
    END \$\$ LANGUAGE plpgsql"
  sql "CHECKPOINT"
  sql "SELECT measure()"
}

# With the probe on, where a table of 100 pages is read from that the kernel and flash have. Filling goes on without the
# probe, since then it does not depend on how fast both are.
read_with_probe() {
  local tries
  sql "SELECT to_flash()" >/dev/null
  sql "ALTER SYSTEM SET pg_flashcache.os_cache_probe = auto"
  sql "ALTER SYSTEM SET pg_flashcache.verify = off"
  sql "SELECT pg_reload_conf()" >/dev/null
  # A bound against waiting for ever, not a measurement.
  for ((tries = 0; tries < 600; tries++)); do
    [ "$(sql "SHOW pg_flashcache.os_cache_probe")" != auto ] || break
    sleep 0.1
  done
  sql "SELECT measure_backwards()"
  sql "ALTER SYSTEM RESET ALL"
}

# Is there io_uring, in the kernel and in the library? Is there cachestat(2)?
ahead='none read ahead'
if grep -q 'io_uring_setup\|io_uring_queue_init' <(strings "$(pg_config --pkglibdir)/pg_flashcache.so") &&
  [ "$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0)" = 0 ]; then
  ahead='read ahead'
fi

start
cluster fc_cluster_wait_active "$volume"
is "file on a volume: active" "$(view)" "active|"
is "file on a volume: no warning" "$(warnings)" ""
is "file on a volume: read from there" "$(read_from_flash)" "100 hits, 0 misses, 0 left to the kernel, $ahead"
if asks_kernel; then
  is "file on a volume: what the kernel holds is read from there" "$(read_with_probe)" "from the kernel"
fi
stop

for error in EPERM ENOSYS; do
  start "$error" io_uring_setup,cachestat
  cluster fc_cluster_wait_active "$volume"
  is "without io_uring ($error): active" "$(view)" "active|"
  is "without io_uring ($error): read from flash all the same" "$(read_from_flash)" \
    "100 hits, 0 misses, 0 left to the kernel, none read ahead"
  is "without io_uring ($error): no warning" "$(warnings)" ""
  is "without io_uring ($error): every hit was right" \
    "$(sql "SELECT verify_checks = hits, verify_failures, read_errors FROM pg_stat_flashcache")" "t|0|0"
  is "without cachestat ($error): what the kernel holds is read from flash" "$(read_with_probe)" "from flash"
  stop
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
