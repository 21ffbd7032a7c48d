#!/usr/bin/env bash
# Sourced by test.sh: which stages there are for which major version, and the run over all of them.
#
#   fc_test_stages MAJOR           names the stages, one a line; none if there is no such major
#   fc_test_long_stages MAJOR      names those that are run only when they are named: an hour each, or as long as one likes
#   fc_test_all TEST_SH --all      everything on 15, 17 and 18, what there is on 16 and 19
#   fc_test_all TEST_SH --full     the same with every size of cache, with the settings for reading at their extremes, with all
#                                  TAP scripts of PostgreSQL's, and under sanitizers and valgrind

# What is not tested on a major, and why.
declare -A fc_test_left_out=(
  [15]=""
  [16]="the wheel has neither dblink nor Perl modules, which isolation and tap need; the core suite is that of 15"
  [17]=""
  [18]=""
  [19]="its source is not to be had, the core suites are those of 18"
)

fc_test_stages() {
  local own="build calls unit regress isolation tap container"
  # shellcheck disable=SC2086  # the stages are words
  case $1 in
    15) printf '%s\n' lint model $own pilot wrap fuzz core core-isolation core-recovery torture-short ;;
    16) printf '%s\n' build calls unit regress minors core ;;
    17 | 18) printf '%s\n' $own wrap core core-isolation core-recovery torture-short ;;
    19) printf '%s\n' $own wrap core core-isolation torture-short ;;
  esac
}

fc_test_long_stages() {
  case $1 in
    15) printf '%s\n' torture health sanitize valgrind ;;
    17 | 18 | 19) printf '%s\n' torture health ;;
  esac
}

fc_test_log=
fc_test_running=

# Ends the run that is under way, and waits until it has cleaned up.
fc_test_leave() {
  trap '' INT TERM HUP
  trap - EXIT
  if [ -n "$fc_test_running" ]; then
    kill -TERM -- "-$fc_test_running" 2>/dev/null || true
    while kill -0 -- "-$fc_test_running" 2>/dev/null; do sleep 0.2; done
  fi
  rm -f "$fc_test_log"
}

fc_test_all() {
  local test_sh=$1 how=$2
  local log passed=0 failed=0 name counts status began
  local -a summary=()
  # One line a run: major, sizes of cache for PostgreSQL's own suites or -, settings of every cluster or -, stages (none: all).
  # With 1 MB of shared buffers a process may pin one buffer at a time, and no read has two pages; with these it may read 16.
  local most="build calls unit regress isolation tap container core core-isolation core-recovery torture-short"
  local wide="shared_buffers=16MB;max_connections=40"
  local plan="15 - -
17 64,4096 - $most
18 64,4096 - $most
17 4096 $wide build core
18 4096 $wide build core
18 - io_method=sync build regress isolation
18 - io_method=io_uring build regress isolation
16 4096 -
19 4096 - build calls unit regress isolation core"
  if [ "$how" = --full ]; then
    plan="15 - -
15 - effective_io_concurrency=0 build core
15 - effective_io_concurrency=64 build core
16 - -
17 - -
17 - $wide;io_combine_limit=8kB;effective_io_concurrency=0 build regress isolation tap core core-isolation core-recovery
17 - $wide;io_combine_limit=256kB;effective_io_concurrency=64 build regress isolation tap core core-isolation core-recovery
18 - -
18 - $wide;io_method=sync;io_combine_limit=8kB;effective_io_concurrency=0 build regress isolation tap core core-isolation core-recovery
18 - $wide;io_method=io_uring;io_max_combine_limit=1MB;io_combine_limit=1MB;effective_io_concurrency=64 build regress isolation tap core core-isolation core-recovery
18 - $wide;io_method=worker;io_workers=1;effective_io_concurrency=64 build regress isolation tap core core-isolation core-recovery
19 - -
15 - - sanitize
15 - - valgrind"
    export FC_RECOVERY=full FC_FUZZ_SECONDS=600
  fi
  log=$(mktemp)
  fc_test_log=$log
  trap fc_test_leave EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  local major arms conf stages
  while read -r major arms conf stages; do
    name="PostgreSQL $major"
    if [ "$conf" = - ]; then conf=''; else name+=", ${conf//;/, }"; fi
    if [ "$arms" = - ]; then arms=''; fi
    echo "=== $name"
    status=0
    began=$SECONDS
    # In a process group of its own, so that it can be ended. What it says then is still wanted: tee stays to the end.
    set -m
    (
      set -o pipefail
      # shellcheck disable=SC2086  # the stages are words
      FC_EXTRA_CONF=${conf//;/$'\n'} FC_ARMS=${arms//,/ } "$test_sh" --server "$major" $stages </dev/null 2>&1 |
        (trap '' INT TERM HUP && exec tee "$log")
    ) &
    fc_test_running=$!
    set +m
    wait "$fc_test_running" || status=$?
    fc_test_running=
    counts=$(tail -n 1 "$log")
    if [ "$status" -eq 3 ]; then
      summary+=("$name: left out. $counts")
      continue
    fi
    if [[ ! $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
      summary+=("$name: broke off: $counts")
      failed=$((failed + 1))
      continue
    fi
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    summary+=("$name: $counts, $((SECONDS - began)) s${fc_test_left_out[$major]:+; not tested: ${fc_test_left_out[$major]}}")
  done <<<"$plan"
  echo
  echo "=== all servers, $SECONDS s"
  printf '%s\n' "${summary[@]}"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
