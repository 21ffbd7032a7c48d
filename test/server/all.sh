#!/usr/bin/env bash
# Sourced by test.sh: which stages there are for which major version, and the run over all of them.
#
#   fc_test_stages MAJOR           names the stages, one a line; none if there is no such major
#   fc_test_all TEST_SH --all      everything on 15, 17 and 18, what there is on 16 and 19
#   fc_test_all TEST_SH --full     the same with every size of cache, and with the settings for reading at their extremes

# What is not tested on a major, and why.
declare -A fc_test_left_out=(
  [15]=""
  [16]="the wheel has neither dblink nor Perl modules, which isolation and tap need; the core suite is that of 15"
  [17]=""
  [18]=""
  [19]="its source is not to be had, the core suites are those of 18"
)

fc_test_stages() {
  local own="build calls unit regress isolation tap"
  # shellcheck disable=SC2086  # the stages are words
  case $1 in
    15) printf '%s\n' lint $own core core-isolation torture-short ;;
    16) printf '%s\n' build calls unit regress minors core ;;
    17 | 18) printf '%s\n' $own core core-isolation torture-short ;;
    19) printf '%s\n' $own core core-isolation torture-short ;;
  esac
}

fc_test_all() {
  local test_sh=$1 how=$2
  local log passed=0 failed=0 name counts status began
  local -a summary=()
  # One line a run: major, sizes of cache for PostgreSQL's own suites or -, settings of every cluster or -, stages (none: all).
  local plan="15 - -
17 64,4096 -
18 64,4096 -
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
17 - io_combine_limit=8kB;effective_io_concurrency=0 build regress isolation tap core core-isolation
17 - io_combine_limit=256kB;effective_io_concurrency=64 build regress isolation tap core core-isolation
18 - -
18 - io_method=sync;io_combine_limit=8kB;effective_io_concurrency=0 build regress isolation tap core core-isolation
18 - io_method=io_uring;io_max_combine_limit=1MB;io_combine_limit=1MB;effective_io_concurrency=64 build regress isolation tap core core-isolation
18 - io_method=worker;io_workers=1;effective_io_concurrency=64 build regress isolation tap core core-isolation
19 - -"
  fi
  log=$(mktemp)
  # shellcheck disable=SC2064  # the name of now
  trap "rm -f '$log'" EXIT
  trap 'exit 130' INT TERM HUP
  local major arms conf stages
  while read -r major arms conf stages; do
    name="PostgreSQL $major"
    if [ "$conf" = - ]; then conf=''; else name+=", ${conf//;/, }"; fi
    if [ "$arms" = - ]; then arms=''; fi
    echo "=== $name"
    status=0
    began=$SECONDS
    # shellcheck disable=SC2086  # the stages are words
    FC_EXTRA_CONF=${conf//;/$'\n'} FC_ARMS=${arms//,/ } "$test_sh" --server "$major" $stages </dev/null 2>&1 | tee "$log" || status=$?
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
