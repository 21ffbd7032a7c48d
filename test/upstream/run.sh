#!/usr/bin/env bash
# Runs PostgreSQL's own suite against a server with the cache, and against the stock server, and compares.
#
# usage: run.sh SUITE TESTS DIR [ARM...]
#   SUITE   core (regression tests) or isolation (specs)
#   TESTS   upstream's unpacked tests made ready by prepare.sh; must be writable
#   DIR     an empty directory for clusters and results, on a short path (a socket lives in it)
#   ARM     SLOTS, a size of the cache, or SLOTS/plain; default 64, 4096 and, for core, 4096/plain
#
# The server is made to hurt: 128 shared buffers, so that nearly every page is evicted and read again, and every hit
# is compared with the disk. 64 slots turn over all the time; 4096 keep pages for long. A plain arm runs as users do,
# without the comparison, which would hide a wrong page from the query, and with the default admission.
#
# Prints a report; last line `N passed, N failed`. After each arm:
#   - the differences from upstream's expected output must be those of the stock server under the same settings;
#   - the cache must still be active and have been used, without one verify or checksum failure;
#   - the log must hold no warning of ours, no PANIC, no crash;
#   - pg_amcheck of every database, then pg_checksums on the stopped cluster, must find nothing;
#   - core: a streaming standby with a cache of its own has replayed it all; the same holds there, and its dump is that of
#     the primary.
#
# Some upstream tests depend on timing. When an arm differs, the stock server is run again, at most twice more: only a
# difference that the stock server shows as well is forgiven.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

suite=$1
tests=$2
dir=$3
shift 3
arms=("$@")
if [ ${#arms[@]} -eq 0 ]; then
  arms=(64 4096)
  [ "$suite" != core ] || arms+=(4096/plain)
fi

pgxs_test=$(pg_config --pkglibdir)/pgxs/src/test
running=()

stop_running() {
  local cluster
  for cluster in "${running[@]}"; do
    fc_cluster_stop "$cluster" immediate >/dev/null 2>&1 || true
  done
}
trap stop_running EXIT

# run_suite RUN: runs the suite on the running cluster of that directory. A failed test is no error here.
run_suite() {
  local run=$1
  local -a options=(--host="$run" --port="$FC_CLUSTER_PORT" --user=postgres --bindir="$(pg_config --bindir)"
    --no-locale --encoding=UTF8 --outputdir="$run" --dlpath="$tests/src/test/regress")
  case $suite in
    core)
      "$pgxs_test/regress/pg_regress" "${options[@]}" --inputdir="$tests/src/test/regress" \
        --max-concurrent-tests=20 --schedule="$tests/src/test/regress/parallel_schedule"
      ;;
    isolation)
      # The two specs that upstream leaves out by default need prepared transactions; our settings have them.
      "$pgxs_test/isolation/pg_isolation_regress" "${options[@]}" --inputdir="$tests/src/test/isolation" \
        --schedule="$tests/src/test/isolation/isolation_schedule" prepared-transactions prepared-transactions-cic
      ;;
    *)
      echo "no such suite: $suite" >&2
      return 2
      ;;
  esac >"$run/console" 2>"$run/console.errors" || true
}

# add_cache RUN ARM
add_cache() {
  fc_cluster_cache "$1" "${2%/plain}"
  if [ "${2%/plain}" != "$2" ]; then
    printf '%s\n' "pg_flashcache.verify = off" "pg_flashcache.admission = auto" >>"$1/data/postgresql.conf"
  else
    # Each statement is counted; EXPLAIN (VERBOSE), which the suites compare, isn't to show its identifier.
    printf '%s\n' "pg_flashcache.track_statements = on" "compute_query_id = regress" >>"$1/data/postgresql.conf"
  fi
}

# start_arm RUN [ARM]
start_arm() {
  local run=$1
  fc_cluster_init "$run" "shared_buffers = 1MB" "max_prepared_transactions = 5" "checkpoint_timeout = 30s"
  [ $# -eq 1 ] || add_cache "$run" "$2"
  running+=("$run")
  fc_cluster_start "$run"
}

# stop_arm RUN
stop_arm() {
  local cluster
  local -a others=()
  fc_cluster_stop "$1"
  for cluster in "${running[@]}"; do
    [ "$cluster" = "$1" ] || others+=("$cluster")
  done
  running=("${others[@]}")
}

# start_standby RUN PRIMARY ARM
start_standby() {
  local run=$1 primary=$2
  mkdir "$run"
  pg_basebackup --host="$primary" --port="$FC_CLUSTER_PORT" --username=postgres --pgdata="$run/data" \
    --checkpoint=fast --no-sync --write-recovery-conf
  echo "unix_socket_directories = '$run'" >>"$run/data/postgresql.conf"
  add_cache "$run" "$3"
  running+=("$run")
  fc_cluster_start "$run"
  fc_cluster_wait_active "$run"
}

# wait_for_replay STANDBY PRIMARY: until the standby has replayed what the primary has written by now
wait_for_replay() {
  local lsn
  lsn=$(fc_cluster_psql "$2" -c "SELECT pg_current_wal_flush_lsn()")
  # A bound against waiting for ever, not a measurement.
  for ((tries = 0; tries < 6000; tries++)); do
    [ "$(fc_cluster_psql "$1" -c "SELECT pg_last_wal_replay_lsn() >= '$lsn'")" = f ] || return 0
    sleep 0.1
  done
  echo "the standby does not replay up to $lsn" >&2
  return 1
}

log_is_clean() {
  ! grep -nEi 'PANIC:|was terminated by signal|WARNING:.*flash|pg_flashcache: .*differs' "$1/log" |
    grep -v 'uses a file on the same file system as'
}

stats_are_clean() {
  local run=$1
  fc_cluster_psql "$run" --expanded -c "SELECT * FROM pg_stat_flashcache" >"$run/stats"
  cat "$run/stats"
  [ "$(fc_cluster_psql "$run" -c "SELECT state = 'active' AND hits > 0 AND inserts > 0
      AND (verify_checks > 0) = current_setting('pg_flashcache.verify')::bool
      AND (verify_failures, checksum_failures, read_errors, write_errors, slots_retired) = (0, 0, 0, 0, 0)
    FROM pg_stat_flashcache")" = t ]
}

# amcheck_is_clean RUN [OPTION]
amcheck_is_clean() {
  pg_amcheck --host="$1" --port="$FC_CLUSTER_PORT" --username=postgres --all --heapallindexed --jobs=2 "${@:2}"
}

# Without the keys of \restrict, which are random.
dump() {
  pg_dumpall --host="$1" --port="$FC_CLUSTER_PORT" --username=postgres --no-sync --no-unlogged-table-data |
    sed -E '/^\\(un)?restrict /d' >"$2"
}

dumps_are_equal() {
  dump "$1" "$1/dump"
  dump "$2" "$2/dump"
  diff "$1/dump" "$2/dump"
}

# What psql does with the rest of a script after a COPY FROM STDIN that failed: see end_copy.py.
psql_reads_on_after_failed_copy() {
  ! printf 'COPY no_such_table FROM stdin;\nSELECT 42;\n' |
    fc_cluster_psql "$1" --set=ON_ERROR_STOP=0 2>/dev/null | grep -qx 42
}

stock_runs=()
stock_arm() {
  local run=$dir/stock$((${#stock_runs[@]} + 1)) began=$SECONDS
  start_arm "$run"
  if [ "$suite" = core ] && psql_reads_on_after_failed_copy "$run"; then
    "$here/end_copy.py" "$tests"/src/test/regress/sql/*.sql
  fi
  run_suite "$run"
  stop_arm "$run"
  stock_runs+=("$run")
  echo "stock server: $("$here/compare.py" differences "$run"), $((SECONDS - began)) s"
}

# The checks of a cluster with a cache after the suite, up to and including its shutdown.
check_cluster() {
  local what=$1 run=$2
  shift 2
  check "$what: the cache was used and found nothing wrong" stats_are_clean "$run"
  if [ "$has_amcheck" -eq 1 ]; then
    check "$what: pg_amcheck" amcheck_is_clean "$run" "$@"
    check "$what: still nothing wrong after pg_amcheck has read everything" stats_are_clean "$run"
  fi
  fc_cluster_psql "$run" -c "SELECT format('$what: hits %s, misses %s, inserts %s, aged out %s, invalidated %s, verify checks %s',
    hits, misses, inserts, eviction_aged_out, eviction_invalidated, verify_checks) FROM pg_stat_flashcache"
}

check_stopped_cluster() {
  local what=$1 run=$2
  check "$what: clean shutdown" stop_arm "$run"
  check "$what: server log" log_is_clean "$run"
  check "$what: pg_checksums" pg_checksums --check --pgdata="$run/data"
}

cache_arm() {
  local arm=$1 what="${1/\// slots, }" began=$SECONDS counts
  [ "$what" != "$arm" ] || what="$arm slots"
  local run=$dir/slots${arm/\//-} standby=$dir/standby${arm/\//-}
  start_arm "$run" "$arm"
  fc_cluster_psql "$run" -c "CREATE EXTENSION pg_flashcache"
  fc_cluster_wait_active "$run"
  [ "$suite" != core ] || start_standby "$standby" "$run" "$arm"
  run_suite "$run"
  echo "$what: $("$here/compare.py" differences "$run"), $((SECONDS - began)) s"

  while ! "$here/compare.py" compare "$run" "${stock_runs[@]}" >"$run/comparison" && [ ${#stock_runs[@]} -lt 3 ]; do
    stock_arm
  done
  cat "$run/comparison"
  counts=$(tail -n 1 "$run/comparison")
  passed=$((passed + ${counts%% passed*}))
  counts=${counts##*, }
  failed=$((failed + ${counts%% failed}))

  check_cluster "$what" "$run" --install-missing
  if [ "$suite" = core ]; then
    # A sequence logs ahead, so its value differs from the standby's until it is set.
    fc_cluster_psql "$run" --dbname=regression -c "SELECT setval(seqrelid, nextval(seqrelid)) FROM pg_sequence" >/dev/null
    check "$what, standby: replay" wait_for_replay "$standby" "$run"
    check "$what, standby: same dump as the primary" dumps_are_equal "$run" "$standby"
    check_cluster "$what, standby" "$standby"
    check_stopped_cluster "$what, standby" "$standby"
  fi
  check_stopped_cluster "$what" "$run"
  echo "$what: done after $((SECONDS - began)) s"
}

# Not every server of the tests comes with contrib: test/server/wheel.sh.
has_amcheck=0
[ ! -e "$(pg_config --sharedir)/extension/amcheck.control" ] || has_amcheck=1
stock_arm
for arm in "${arms[@]}"; do
  cache_arm "$arm"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
