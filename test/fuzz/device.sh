#!/usr/bin/env bash
# A server under load whose cache file is spoilt all the time: no query may ever see it.
#
# usage: device.sh DIR [SECONDS] [SEED]
#
# spoil.py overwrites, shuffles, tears and sets back slots while pgbench reads and updates rows, each of which carries a sum
# of itself, and checks every one that it reads. Rounds with pg_flashcache.verify on, where the disk is looked at beside every
# hit and not one may differ, and rounds with it off, where nothing but the checksum stands between the device and the query.
# Slots that gave wrong pages are out of use until the cache is emptied, so each round begins with that.
#
# Prints a report; last line `N passed, N failed`. Expects the private copy's bin first in PATH.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

dir=$1
seconds=${2:-30}
seed=${3:-$(($(date +%s) % 100000))}
run=$dir/server
spoiler=

# shellcheck disable=SC2317  # called by the trap
stop_all() {
  [ -z "$spoiler" ] || kill "$spoiler" 2>/dev/null || true
  fc_cluster_stop "$run" immediate >/dev/null 2>&1 || true
}
trap stop_all EXIT

query() {
  fc_cluster_psql "$run" -c "$1"
}

# gives EXPECTED QUERY
gives() {
  local found
  found=$(query "$2")
  [ "$found" = "$1" ] || { echo "$2: $found instead of $1" && false; }
}

stat_of() {
  query "SELECT $1 FROM pg_stat_flashcache"
}

log_is_clean() {
  ! grep -nE 'PANIC:|ERROR:|was terminated by signal|WARNING:.*flash|pg_flashcache: .*differs' "$run/log" |
    grep -vE 'uses a file on the same file system as|with wrong content from flash'
}

echo "seed $seed"
# Half of the cluster fits into the cache, nothing of it into shared buffers.
fc_cluster_init "$run" "shared_buffers = 1MB" "autovacuum = off" "log_min_messages = warning"
fc_cluster_cache "$run" 512
fc_cluster_start "$run"
query "CREATE EXTENSION pg_flashcache;
  CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, pad text NOT NULL, sum text NOT NULL) WITH (fillfactor = 60);
  ALTER TABLE t ALTER pad SET STORAGE PLAIN;
  INSERT INTO t SELECT n, 0, repeat(md5(n::text), 20), md5(n || '/' || 0 || repeat(md5(n::text), 20)) FROM generate_series(1, 12000) n;"
# Two rows near each other and a few of anywhere; a wrong one, or one too few, ends the client.
cat >"$dir/load.sql" <<'END_OF_SCRIPT'
\set id random(1, 11980)
\set to :id + 19
SELECT 1 / (count(*) = 20)::int FROM t WHERE id BETWEEN :id AND :to AND sum = md5(id || '/' || v || pad);
UPDATE t SET v = v + 1, sum = md5(id || '/' || v + 1 || pad) WHERE id = :id;
END_OF_SCRIPT
fc_cluster_wait_active "$run"

set_conf() {
  printf '%s\n' "$@" >>"$run/data/postgresql.conf"
  pg_ctl --silent --pgdata="$run/data" reload
}

# Until it is ended: what is under way then is waited for, so nothing is spoilt afterwards.
spoil_for_ever() {
  local n=0 on=1
  trap 'on=' TERM
  while [ -n "$on" ] && "$here/spoil.py" "$run/flash" "$((seed + n))" 200 >>"$dir/spoilt"; do
    n=$((n + 1))
  done
}

updates=0
rounds=0
end=$((SECONDS + seconds))
while [ $SECONDS -lt "$end" ] || [ $rounds -lt 2 ]; do
  rounds=$((rounds + 1))
  if [ $((rounds % 2)) -eq 1 ]; then verify=on; else verify=off; fi
  # Off and on again: empty, and the slots that were taken out of use are back. The file was not shortened or moved.
  set_conf "pg_flashcache.enabled = off" "pg_flashcache.verify = $verify"
  fc_cluster_wait_state "$run" disabled
  # What is left of the header is looked at when the device is opened: a spoilt one is refused, as it should be, and so is
  # a file that begins with zeros and holds something behind them.
  dd if=/dev/zero of="$run/flash" bs=8k count=$(($(stat --format=%s "$run/flash") / 8192)) conv=notrunc status=none
  set_conf "pg_flashcache.enabled = on"
  fc_cluster_wait_state "$run" active
  before=$(stat_of "checksum_failures || ' ' || hits || ' ' || verify_checks")
  spoil_for_ever &
  spoiler=$!
  check "round $rounds, verify $verify: no query sees it" \
    pgbench --host="$run" --port="$FC_CLUSTER_PORT" --username=postgres --no-vacuum --client=3 --time=4 \
    --random-seed="$((seed + rounds))" --file="$dir/load.sql" postgres
  updates=$((updates + $(sed -nE 's/^number of transactions actually processed: ([0-9]+).*/\1/p' "$dir/check")))
  kill "$spoiler"
  wait "$spoiler" 2>/dev/null || true
  spoiler=
  check "round $rounds: every row" gives 0 "SELECT count(*) FROM t WHERE sum <> md5(id || '/' || v || pad)"
  check "round $rounds: every update" gives "$updates" "SELECT sum(v) FROM t"
  read -r wrong hits checks <<<"$before"
  check "round $rounds: damage was noticed, and hits were had" \
    gives t "SELECT checksum_failures > $wrong AND hits > $hits AND (verify_checks > $checks) = ('$verify' = 'on') FROM pg_stat_flashcache"
  check "round $rounds: never a wrong hit, no error, still active" \
    gives "0 0 0 active" "SELECT verify_failures || ' ' || read_errors || ' ' || write_errors || ' ' || state FROM pg_stat_flashcache"
done
query "SELECT format('%s rounds: hits %s, of which compared with the disk %s; checksum failures %s, slots retired %s',
  $rounds, hits, verify_checks, checksum_failures, slots_retired) FROM pg_stat_flashcache"
echo "$updates transactions; $(wc -l <"$dir/spoilt") times 200 operations on the device, the last: $(tail -n 1 "$dir/spoilt")"
check "slots retired are not more than failures" gives t "SELECT slots_retired <= checksum_failures FROM pg_stat_flashcache"
check "clean shutdown" fc_cluster_stop "$run"
check "server log" log_is_clean
check "pg_checksums" pg_checksums --check --pgdata="$run/data"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
