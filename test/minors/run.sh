#!/usr/bin/env bash
# One data directory under two minor releases of the server, in turns, with one and the same build of the extension.
#
# usage: run.sh OLD_BIN NEW_BIN DIR KNOW
#   OLD_BIN, NEW_BIN   bin of private servers; both have the extension that was built against NEW
#   DIR                an empty directory, on a short path
#   KNOW               "no yes" or "yes yes": whether mdtruncate() of each is told how many blocks the relation had
#
# In one of the minor releases of each major, mdtruncate() got that argument. The library finds out at run time
# (fc_smgr_truncate). Were it wrong, VACUUM would cut at the wrong place, or pages behind the end would stay in flash and be
# read when the relation has grown again.
#
# Last line `N passed, N failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

old=$1
new=$2
dir=$3
know=$4
path=$PATH

trap 'fc_cluster_stop "$dir" immediate >/dev/null 2>&1 || true' EXIT

sql() {
  fc_cluster_psql "$dir" -c "$1"
}

# The signature came together with this function.
knows_old_length() {
  nm -D --defined-only "$1/postgres" | awk '$3 == "smgrtruncate2" { n = 1 } END { print n ? "yes" : "no" }'
}

in_flash() {
  sql "SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('t') AND relblocknumber >= $1"
}

# Reads other pages until none of t is in shared buffers: 1 MB of them, 8 MB of filler.
evict() {
  sql "SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(pad) FROM filler WHERE id > 0" >/dev/null
}

# Every page of t is read singly, written out if need be, and pushed out: to flash. The clock hand may outrun the writer.
fill() {
  local pages tries
  pages=$(sql "SELECT pg_relation_size('t') / 8192")
  for ((tries = 0; tries < 50; tries++)); do
    sql 'CHECKPOINT'
    sql "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
      SELECT count(pad) FROM generate_series(0, $pages - 1) blk LEFT JOIN t ON t.ctid = format('(%s,1)', blk)::tid" >/dev/null
    evict
    [ "$(in_flash 0)" -lt "$pages" ] || return 0
  done
}

# A table is cut by VACUUM while all of it is in flash, and grows again.
round() {
  local name=$1 label=$2
  sql "TRUNCATE t; INSERT INTO t SELECT n, repeat('$label', 1250) FROM generate_series(1, 600) n; ANALYZE t"
  is "$name: t has 100 pages" "$(sql "SELECT pg_relation_size('t') / 8192")" 100
  sql "SELECT count(*) FROM t" >/dev/null
  fill
  is "$name: all are in flash" "$(in_flash 0)" 100
  sql "DELETE FROM t WHERE id > 180"
  sql 'CHECKPOINT'
  fill
  is "$name: so are the 70 whose rows have been deleted" "$(in_flash 30)" 70
  sql 'VACUUM t'
  is "$name: VACUUM has cut them off" "$(sql "SELECT pg_relation_size('t') / 8192")" 30
  is "$name: none of them is in flash" "$(in_flash 30)" 0
  sql "INSERT INTO t SELECT n, repeat('$label', 1250) FROM generate_series(1001, 1420) n"
  sql "SELECT count(*) FROM t" >/dev/null
  fill
  is "$name: 70 new ones are" "$(in_flash 30)" 70
  is "$name: the rows are right" "$(sql "SET enable_seqscan = off; SET enable_bitmapscan = off;
    SELECT count(*), sum(id), count(*) FILTER (WHERE pad = repeat('$label', 1250)) FROM t WHERE id > 0")" \
    "600|$((180 * 181 / 2 + 420 * (1001 + 1420) / 2))|600"
  is "$name: every hit was what the disk has" \
    "$(sql 'SELECT hits > 0 AND hits = verify_checks, verify_failures, checksum_failures FROM pg_stat_flashcache')" 't|0|0'
}

start() {
  PATH=$1:$path
  fc_cluster_start "$dir"
  sql 'CREATE EXTENSION IF NOT EXISTS pg_flashcache'
  fc_cluster_wait_active "$dir"
}

is 'what mdtruncate() of the two servers takes' "$(knows_old_length "$old") $(knows_old_length "$new")" "$know"
PATH=$old:$path
fc_cluster_init "$dir" 'client_min_messages = warning' 'shared_buffers = 1MB' 'autovacuum = off' "default_toast_compression = 'pglz'"
fc_cluster_cache "$dir" 4096
start "$old"
sql "CREATE TABLE t (id int PRIMARY KEY, pad text); ALTER TABLE t ALTER pad SET STORAGE PLAIN;
  CREATE UNLOGGED TABLE filler (id int PRIMARY KEY, pad text); ALTER TABLE filler ALTER pad SET STORAGE PLAIN;
  INSERT INTO filler SELECT n, repeat('x', 5000) FROM generate_series(1, 1024) n; CHECKPOINT"

first=$("$old/postgres" --version)
second=$("$new/postgres" --version)
round "${first#postgres (PostgreSQL) }" a
fc_cluster_stop "$dir"
start "$new"
is 'after the upgrade: the rows are there' "$(sql "SELECT count(*) FROM t WHERE pad = repeat('a', 1250)")" 600
round "${second#postgres (PostgreSQL) }" b
fc_cluster_stop "$dir"
start "$old"
is 'after going back: the rows are there' "$(sql "SELECT count(*) FROM t WHERE pad = repeat('b', 1250)")" 600
round "${first#postgres (PostgreSQL) } again" c
fc_cluster_stop "$dir"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
