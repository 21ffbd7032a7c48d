#!/usr/bin/env bash
# Runs a suite of our own that pg_regress or pg_isolation_regress drives, on a cluster with a cache of 64 slots.
#
# usage: run-regress.sh SUITE INPUT DIR TEST...
#   SUITE   regress (INPUT/sql, INPUT/expected) or isolation (INPUT/specs, INPUT/expected)
#   DIR     an empty directory for the cluster and the results, on a short path (a socket lives in it)
#
# Prints what pg_regress prints, and the differences; last line `N passed, N failed`. Settings that the suite needs
# beyond those of fc_cluster_cache stand in INPUT/postgresql.conf.
# Expects the private server's bin first in PATH.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/cluster.sh"

suite=$1
input=$2
dir=$3
shift 3

pgxs_test=$(pg_config --pkglibdir)/pgxs/src/test
case $suite in
  regress) driver=$pgxs_test/regress/pg_regress ;;
  isolation) driver=$pgxs_test/isolation/pg_isolation_regress ;;
  *)
    echo "no such suite: $suite" >&2
    exit 2
    ;;
esac

running=
stop_running() {
  if [ -n "$running" ]; then
    fc_cluster_stop "$running" immediate >/dev/null 2>&1 || true
  fi
}
trap stop_running EXIT

# Counters are compared to the last digit: nothing may happen that the test did not ask for.
fc_cluster_init "$dir" "shared_buffers = 1MB" "autovacuum = off" "max_prepared_transactions = 5"
fc_cluster_cache "$dir" 64
if [ -f "$input/postgresql.conf" ]; then
  cat "$input/postgresql.conf" >>"$dir/data/postgresql.conf"
fi
running=$dir
fc_cluster_start "$dir"
fc_cluster_psql "$dir" -c "CREATE EXTENSION pg_flashcache"
fc_cluster_wait_active "$dir"

status=0
"$driver" --host="$dir" --port="$FC_CLUSTER_PORT" --user=postgres --bindir="$(pg_config --bindir)" \
  --inputdir="$input" --outputdir="$dir" --no-locale --encoding=UTF8 --dbname="fc_$suite" "$@" >"$dir/console" 2>&1 ||
  status=$?
cat "$dir/console"
if [ -s "$dir/regression.diffs" ]; then
  cat "$dir/regression.diffs"
fi

fc_cluster_stop "$dir"
running=
# From 16 on pg_regress speaks TAP.
passed=$(grep -cE '\.\.\. ok\b|^ok [0-9]' "$dir/console" || true)
failed=$(grep -cE '\.\.\. FAILED|^not ok [0-9]' "$dir/console" || true)
if grep -nE 'PANIC:|was terminated by signal' "$dir/log"; then
  echo "not ok: the server crashed"
  failed=$((failed + 1))
fi
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
