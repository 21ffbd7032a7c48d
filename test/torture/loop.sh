#!/usr/bin/env bash
# Runs a read-write load with DDL and VACUUM beside it, kills the server, lets it recover, and looks whether anything is
# lost or old. Several times over, on one and the same cluster.
#
# usage: loop.sh [--rounds N] [--seconds N] [--seed N] [DIR]
#   --rounds    default 3; odd rounds have a cache of 4096 slots, even ones of 64
#   --seconds   load before each kill, default 15
#   --seed      of everything that is chosen at random; printed, so that a run can be repeated. What the scheduler does is
#               not in it.
#   DIR         an empty directory for the cluster, on a short path (a socket lives in it); default a temporary one,
#               which is removed at the end
#
# The load is pgbench's, whose balances must add up whatever happens, and the statements of ddl.sh, which change files
# behind the load's back and keep books of their own. Shared buffers are 1 to 4 MB, so nearly every page is evicted and
# read again; every hit is compared with the disk.
#
# Prints what failed, and as the last line `N passed, N failed`. Expects the private server's bin first in PATH, and
# not to be root: ./test.sh torture-short does both.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=test/lib/cluster.sh
. "$here/../lib/cluster.sh"
# shellcheck source=test/torture/ddl.sh
. "$here/ddl.sh"

rounds=3
seconds=15
seed=$((($(date +%s) ^ $$) & 32767))
dir=
while [ $# -gt 0 ]; do
  case $1 in
    --rounds | --seconds | --seed)
      if [[ ! ${2:-} =~ ^[0-9]+$ ]]; then
        echo "$1 needs a number" >&2
        exit 2
      fi
      declare "${1#--}=$2"
      shift 2
      ;;
    -*)
      sed -n 's/^# \{0,1\}//; 2,/^$/p' "${BASH_SOURCE[0]}" >&2
      exit 2
      ;;
    *)
      dir=$1
      shift
      ;;
  esac
done
if [ "$(id -u)" -eq 0 ]; then
  echo "PostgreSQL does not run as root; ./test.sh torture-short takes care of that" >&2
  exit 2
fi

temporary=
if [ -z "$dir" ]; then
  temporary=$(mktemp -d "${TMPDIR:-/tmp}/fc-torture.XXXXXX")
  dir=$temporary
fi
dir=$(cd "$dir" && pwd -P)
passed=0
failed=0
jobs=()

# ---- processes ----

# The fields of /proc/PID/stat behind the name, which may hold anything: state, parent, ...
process_stat() {
  local line
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  echo "${line##*) }"
}

children_of() {
  local entry pid state parent
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    read -r state parent _ <<<"$(process_stat "$pid")" || continue
    [ "$parent" != "$1" ] || echo "$pid"
  done
}

# A zombie is dead: it waits for nothing but its parent.
is_dead() {
  local state
  state=$(process_stat "$1") || return 0
  [[ $state == [ZX]* ]]
}

# The postmaster of this cluster and its children, all at once, without a chance to write anything.
kill_server() {
  local postmaster pid tries
  local -a pids
  postmaster=$(head -n 1 "$dir/data/postmaster.pid")
  # It must not start another one while we count them.
  kill -STOP "$postmaster"
  until [[ $(process_stat "$postmaster") == T* ]]; do :; done
  mapfile -t pids < <(children_of "$postmaster")
  pids+=("$postmaster")
  kill -KILL "${pids[@]}" 2>/dev/null || true
  for pid in "${pids[@]}"; do
    # A bound against waiting for ever, not a measurement.
    for ((tries = 0; tries < 600; tries++)); do
      ! is_dead "$pid" || break
      sleep 0.1
    done
    if [ "$tries" -eq 600 ]; then
      echo "process $pid survived a kill -9" >&2
      return 1
    fi
  done
  # A dead process keeps its number until its parent has asked for it; the next postmaster would take it for a running one.
  rm -f "$dir/data/postmaster.pid" "$dir/.s.PGSQL.$FC_CLUSTER_PORT.lock"
}

end_jobs() {
  local pid
  for pid in "${jobs[@]}"; do
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  jobs=()
}

clean_up() {
  trap - EXIT INT TERM HUP
  end_jobs
  if [ -f "$dir/data/postmaster.pid" ]; then
    fc_cluster_stop "$dir" immediate >/dev/null 2>&1 || true
  fi
  if [ -n "$temporary" ]; then
    rm -rf "$temporary"
  fi
}
trap clean_up EXIT
trap 'clean_up; exit 130' INT TERM HUP

# ---- checks ----

# check DESCRIPTION COMMAND...: one test
check() {
  local what="round $round: $1"
  shift
  if "$@" >"$dir/check" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "not ok: $what"
    head -n 50 "$dir/check"
  fi
}

# Neither pgbench nor the other statements have met an error; each stops at its first.
load_is_running() {
  local pid status=0
  for pid in "${jobs[@]}"; do
    if is_dead "$pid"; then
      echo "process $pid has ended"
      status=1
    fi
  done
  tail -n 3 "$dir/ddl.$round"
  if grep -nE 'ERROR|FATAL|aborted|wrong:' "$dir/pgbench.$round" "$dir/ddl.$round"; then
    status=1
  fi
  return "$status"
}

start_again() {
  fc_cluster_start "$dir" && fc_cluster_wait_active "$dir"
}

# cache_is_clean [CONDITION]: by what the cache says of itself, nothing went wrong.
cache_is_clean() {
  fc_cluster_psql "$dir" --expanded -c "SELECT * FROM pg_stat_flashcache"
  [ "$(fc_cluster_psql "$dir" -c "SELECT state = 'active' AND ${1:-true}
      AND (verify_failures, checksum_failures, read_errors, write_errors, slots_retired) = (0, 0, 0, 0, 0)
    FROM pg_stat_flashcache")" = t ]
}

# The log of this round, from the start of the server on.
log_is_clean() {
  ! tail -c "+$log_begins" "$dir/log" |
    grep -nEi 'PANIC:|was terminated by signal|WARNING:.*flash|pg_flashcache: .*differs|invalid page|could not read block'
}

# pgbench adds the same number to one row of each of three tables and writes it down in a fourth.
balances_add_up() {
  fc_cluster_psql "$dir" -c "SELECT sum(abalance) FROM pgbench_accounts" -c "SELECT sum(tbalance) FROM pgbench_tellers" \
    -c "SELECT sum(bbalance) FROM pgbench_branches" -c "SELECT coalesce(sum(delta), 0) FROM pgbench_history" >"$dir/sums"
  cat "$dir/sums"
  [ "$(wc -l <"$dir/sums")" -eq 4 ] && [ "$(sort -u "$dir/sums" | wc -l)" -eq 1 ]
}

amcheck_is_clean() {
  pg_amcheck --host="$dir" --port="$FC_CLUSTER_PORT" --username=postgres --all --install-missing --heapallindexed
}

# ---- rounds ----

# pick ITEM...: one of them, by the seed
pick() {
  shift "$((RANDOM % $#))"
  echo "$1"
}

round=0
RANDOM=$seed
echo "seed $seed: loop.sh --rounds $rounds --seconds $seconds --seed $seed"
fc_cluster_init "$dir" "allow_in_place_tablespaces = on" "autovacuum_naptime = 1s" "max_wal_size = 128MB" \
  "checkpoint_timeout = 30s" "log_min_messages = log" "log_checkpoints = off"
fc_cluster_cache "$dir" 64
log_begins=1
fc_cluster_start "$dir"
fc_cluster_psql "$dir" -c "CREATE EXTENSION pg_flashcache"
fc_torture_prepare "$dir"
pgbench --host="$dir" --port="$FC_CLUSTER_PORT" --username=postgres --initialize --scale=3 --quiet postgres 2>/dev/null
fc_cluster_stop "$dir"

for ((round = 1; round <= rounds; round++)); do
  slots=$((round % 2 == 1 ? 4096 : 64))
  # Not within a command substitution: a subshell would draw the same number again.
  buffers=$((1 + RANDOM % 4))
  admissions=(all auto reuse)
  admission=${admissions[RANDOM % 3]}
  round_seed=$RANDOM
  {
    echo "shared_buffers = ${buffers}MB"
    echo "pg_flashcache.size = '$((slots * 8))kB'"
    echo "pg_flashcache.admission = $admission"
  } >>"$dir/data/postgresql.conf"
  log_begins=$(($(wc -c <"$dir/log") + 1))
  fc_cluster_start "$dir"
  fc_cluster_wait_active "$dir"
  fc_torture_begin "$dir" "$round"

  # Longer than the round: whoever ends before the kill has failed.
  pgbench --host="$dir" --port="$FC_CLUSTER_PORT" --username=postgres --no-vacuum --client=3 --time=100000 \
    --builtin=tpcb-like@4 --builtin=select-only@1 --random-seed="$round_seed" postgres >"$dir/pgbench.$round" 2>&1 &
  jobs+=($!)
  fc_torture_ddl "$dir" "$round" "$round_seed" >"$dir/ddl.$round" 2>&1 &
  jobs+=($!)
  sleep "$seconds"

  check "the load met no error" load_is_running
  check "the cache was used, and found nothing wrong" \
    cache_is_clean "least(hits, verify_checks, inserts, eviction_aged_out, eviction_invalidated) > 0"
  fc_cluster_psql "$dir" -c "SELECT format('round $round: $slots slots, shared_buffers ${buffers}MB, admission $admission: '
    '%s hits, %s misses, %s inserts, %s aged out, %s invalidated', hits, misses, inserts, eviction_aged_out, eviction_invalidated)
    FROM pg_stat_flashcache"
  kill_server
  end_jobs
  echo "round $round: killed after $(grep -c '^done:' "$dir/ddl.$round" || true) statements of ddl.sh"
  check "the server starts and recovers" start_again
  if [ ! -f "$dir/data/postmaster.pid" ]; then
    break
  fi
  check "pgbench's balances add up after recovery" balances_add_up
  check "so do the books of ddl.sh" fc_torture_look "$dir" "$round"
  check "pg_amcheck" amcheck_is_clean
  check "the balances are the same, read once more through the cache" balances_add_up
  check "the cache found nothing wrong after recovery" cache_is_clean
  check "the log is clean" log_is_clean
  fc_torture_end "$dir" "$round"
  fc_cluster_stop "$dir"
done

if [ "$round" -gt "$rounds" ]; then
  round=$rounds
  check "pg_checksums on the stopped cluster" pg_checksums --check --pgdata="$dir/data"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
