#!/usr/bin/env bash
# Runs PostgreSQL's own suite against a server with the cache, and against the stock server, and compares.
#
# usage: run.sh SUITE TESTS DIR [SLOTS...]
#   SUITE   core (217 regression tests) or isolation (117 specs)
#   TESTS   upstream's unpacked tests made ready by prepare.sh; must be writable
#   DIR     an empty directory for clusters and results, on a short path (a socket lives in it)
#   SLOTS   sizes of the cache, one arm each; default 64 4096
#
# The server is made to hurt: 128 shared buffers, so that nearly every page is evicted and read again, and every hit
# is compared with the disk. 64 slots turn over all the time; 4096 keep pages for long.
#
# Prints a report; last line `N passed, N failed`. After each arm:
#   - the differences from upstream's expected output must be those of the stock server under the same settings;
#   - the cache must still be active and have been used, without one verify or checksum failure;
#   - the log must hold no warning of ours, no PANIC, no crash;
#   - pg_amcheck of every database, then pg_checksums on the stopped cluster, must find nothing.
#
# Some upstream tests depend on timing. When an arm differs, the stock server is run again, at most twice more: only a
# difference that the stock server shows as well is forgiven.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/lib/cluster.sh
. "$here/../lib/cluster.sh"

suite=$1
tests=$2
dir=$3
shift 3
sizes=("$@")
[ ${#sizes[@]} -gt 0 ] || sizes=(64 4096)

pgxs_test=$(pg_config --pkglibdir)/pgxs/src/test
passed=0
failed=0
running=

stop_running() {
  if [ -n "$running" ]; then
    fc_cluster_stop "$running" immediate >/dev/null 2>&1 || true
  fi
}
trap stop_running EXIT

# check DESCRIPTION COMMAND...: one test
check() {
  local what=$1
  shift
  if "$@" >"$dir/check" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "not ok: $what"
    head -n 100 "$dir/check"
  fi
}

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

# start_arm RUN [SLOTS]
start_arm() {
  local run=$1
  fc_cluster_init "$run" "shared_buffers = 1MB" "max_prepared_transactions = 5" "checkpoint_timeout = 30s"
  [ $# -eq 1 ] || fc_cluster_cache "$run" "$2"
  running=$run
  fc_cluster_start "$run"
}

log_is_clean() {
  ! grep -nEi 'PANIC:|was terminated by signal|WARNING:.*flash|pg_flashcache: .*differs' "$1/log"
}

stats_are_clean() {
  local run=$1
  fc_cluster_psql "$run" --expanded --no-align -c "SELECT * FROM pg_stat_flashcache" >"$run/stats"
  cat "$run/stats"
  [ "$(fc_cluster_psql "$run" -c "SELECT state = 'active' AND hits > 0 AND inserts > 0 AND verify_checks > 0
    AND verify_failures = 0 AND checksum_failures = 0 AND read_errors = 0 AND write_errors = 0 AND slots_retired = 0
    FROM pg_stat_flashcache")" = t ]
}

amcheck_is_clean() {
  pg_amcheck --host="$1" --port="$FC_CLUSTER_PORT" --username=postgres --all --install-missing --heapallindexed --jobs=2
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
  fc_cluster_stop "$run"
  running=
  stock_runs+=("$run")
  echo "stock server: $("$here/compare.py" differences "$run"), $((SECONDS - began)) s"
}

cache_arm() {
  local slots=$1
  local run=$dir/slots$slots began=$SECONDS
  start_arm "$run" "$slots"
  fc_cluster_psql "$run" -c "CREATE EXTENSION pg_flashcache"
  fc_cluster_wait_active "$run"
  run_suite "$run"
  echo "$slots slots: $("$here/compare.py" differences "$run"), $((SECONDS - began)) s"

  while ! "$here/compare.py" compare "$run" "${stock_runs[@]}" >"$run/comparison" && [ ${#stock_runs[@]} -lt 3 ]; do
    [ -s "$run/console" ] || break
    stock_again
  done
  cat "$run/comparison"
  local counts
  counts=$(tail -n 1 "$run/comparison")
  passed=$((passed + ${counts%% passed*}))
  counts=${counts##*, }
  failed=$((failed + ${counts%% failed}))

  check "$slots slots: the cache was used and found nothing wrong" stats_are_clean "$run"
  check "$slots slots: pg_amcheck" amcheck_is_clean "$run"
  check "$slots slots: still nothing wrong after pg_amcheck has read everything" stats_are_clean "$run"
  fc_cluster_psql "$run" -c "SELECT format('hits %s, misses %s, inserts %s, aged out %s, invalidated %s, verify checks %s',
    hits, misses, inserts, eviction_aged_out, eviction_invalidated, verify_checks) FROM pg_stat_flashcache"
  check "$slots slots: clean shutdown" fc_cluster_stop "$run"
  running=
  check "$slots slots: server log" log_is_clean "$run"
  check "$slots slots: pg_checksums" pg_checksums --check --pgdata="$run/data"
  echo "$slots slots: done after $((SECONDS - began)) s"
}

# Another stock run while an arm's cluster is up: that one keeps running, its checks come later.
stock_again() {
  local arm=$running
  stock_arm
  running=$arm
}

stock_arm
for slots in "${sizes[@]}"; do
  cache_arm "$slots"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
