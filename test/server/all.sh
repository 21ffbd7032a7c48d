#!/usr/bin/env bash
# Sourced by test.sh: the run over all major versions. (Which stages there are for which, their heads say.)
#
#   fc_test_all ROOT --all         everything on 15, 17 and 18, what there is on 16 and 19
#   fc_test_all ROOT --full        the same with every size of cache, with the settings for reading at their extremes, with all
#                                  TAP scripts of PostgreSQL's, and under sanitizers and valgrind
#
# A plan has a line for each run of test.sh. With --all two of them run side by side (FC_LANES in the environment: how many),
# since every stage waits at times. Each has directories of its own; what is the machine's changes hands under a lock
# (test/lib/root-places.sh). Everything that is downloaded or made once and kept is there before the first line begins. What a
# line printed is shown when it is done, and is in build/test-logs-all/NN-MAJOR/, with the logs of its stages. What failed is
# said again at the very end.
#
# FC_MINUTES in the environment: the run ends after so many, with what is known by then; what was under way or had not begun has
# failed. Whoever waits for the run and gives up on it sees nothing (.ci/run).
#
# Expects test/lib/stages.sh, with the heads loaded.

# What is not tested on a major, and why.
declare -A fc_test_left_out=(
  [15]=""
  [16]="the wheel has neither dblink nor Perl modules, which isolation and tap need; the core suite is that of 15"
  [17]=""
  [18]=""
  [19]="its source is not to be had, the core suites are those of 18"
)

fc_test_running=()

# Ends the runs that are under way, and waits until they have cleaned up.
fc_test_leave() {
  local group
  trap '' INT TERM HUP
  trap - EXIT
  for group in "${fc_test_running[@]}"; do
    kill -TERM -- "-$group" 2>/dev/null || true
  done
  for group in "${fc_test_running[@]}"; do
    while kill -0 -- "-$group" 2>/dev/null; do sleep 0.2; done
  done
}

# One line a run: major, sizes of cache for PostgreSQL's own suites or -, settings of every cluster or -, stages (none: all;
# rest: those that no line before it has for that major, but those named). The longest come first. On 17 regress, isolation and tap run with
# assertions (cassert), and not once more without.
# With 1 MB of shared buffers a process may pin one buffer at a time, and no read has two pages; with these it may read 16.
fc_test_plan() {
  local own="regress isolation tap" most="container core core-isolation core-recovery torture-short"
  local wide="shared_buffers=16MB;max_connections=40"
  if [ "$1" = --all ]; then
    echo "15 - - lint model build calls unit $own container wrap
18 64,4096 - indent build calls unit installcheck $own $most place
17 64,4096 - build calls unit installcheck cassert $most
15 - - rest but cassert
19 4096 - build calls unit regress isolation core
17 4096 $wide build core
18 4096 $wide build core
16 4096 -
18 - io_method=sync build regress isolation
18 - io_method=io_uring build regress isolation"
  else
    echo "15 - -
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
  fi
}

# fc_test_stages MAJOR BEFORE STAGE...: the stages of a line; BEFORE are those of the lines before it, of that major.
fc_test_stages() {
  local major=$1 before=$2 name
  local -a rest=(build)
  shift 2
  if [ "${1:-}" != rest ]; then
    echo "$*"
    return
  fi
  before+=" $*"
  for name in $(fc_stage_names "$major" always); do
    [[ " $before " == *" $name "* ]] || rest+=("$name")
  done
  echo "${rest[*]}"
}

# The words of line $1, as variables of the caller.
fc_test_line() {
  number=$(printf '%02d' $(($1 + 1)))
  read -r major arms conf stages <<<"${lines[$1]}"
  name="PostgreSQL $major"
  if [ "$conf" = - ]; then conf=''; else name+=", ${conf//;/, }"; fi
  if [ "$arms" = - ]; then arms=''; fi
  kept=$logs/$number-$major
}

fc_test_all() {
  local root=$1 how=$2 logs=$1/build/test-logs-all lanes=${FC_LANES:-1}
  local passed=0 failed=0 i next=0 status pid counts guard='' out_of_time=''
  local number major arms conf stages name kept file
  local -a lines=() summary=() began=()
  local -A line_of=() before=()
  if [ "$how" = --full ]; then
    export FC_RECOVERY=full FC_FUZZ_SECONDS=600
  else
    lanes=${FC_LANES:-2}
  fi
  rm -rf "$logs"
  mkdir -p "$logs"
  while read -r major arms conf stages; do
    # shellcheck disable=SC2086  # the stages are words
    stages=$(fc_test_stages "$major" "${before[$major]:-}" $stages)
    before[$major]+=" $stages"
    lines+=("$major $arms $conf $stages")
  done < <(fc_test_plan "$how")
  trap fc_test_leave EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  trap 'out_of_time=yes' USR1
  if [ -n "${FC_MINUTES:-}" ]; then
    { sleep "$((FC_MINUTES * 60))" && kill -USR1 $$; } >/dev/null 2>&1 &
    guard=$!
  fi

  # Where this fails, the line itself says why.
  for ((i = 0; i < ${#lines[@]}; i++)); do
    fc_test_line "$i"
    # shellcheck disable=SC2086  # the stages are words
    "$root/test.sh" --server "$major" --install $stages >>"$logs/install.log" 2>&1 </dev/null || true
  done

  while [ -z "$out_of_time" ] && { [ "$next" -lt ${#lines[@]} ] || [ ${#line_of[@]} -gt 0 ]; }; do
    if [ "$next" -lt ${#lines[@]} ] && [ ${#line_of[@]} -lt "$lanes" ]; then
      fc_test_line "$next"
      mkdir -p "$kept"
      echo "--- $(fc_test_clock) begins: $name: ${stages:-all stages}"
      began[next]=$SECONDS
      # In a process group of its own, so that it can be ended.
      set -m
      # shellcheck disable=SC2086  # the stages are words
      FC_LOGS=$kept FC_EXTRA_CONF=${conf//;/$'\n'} FC_ARMS=${arms//,/ } "$root/test.sh" --server "$major" $stages \
        >"$kept/output" 2>&1 </dev/null &
      pid=$!
      set +m
      line_of[$pid]=$next
      fc_test_running=("${!line_of[@]}")
      next=$((next + 1))
      continue
    fi
    status=0
    wait -n -p pid "${!line_of[@]}" || status=$?
    [ -z "$out_of_time" ] || break
    i=${line_of[$pid]}
    unset "line_of[$pid]"
    fc_test_running=("${!line_of[@]}")
    fc_test_line "$i"
    counts=$(tail -n 1 "$kept/output")
    echo
    echo "=== $name"
    cat "$kept/output"
    echo "--- $(fc_test_clock) done: $name: $counts, $((SECONDS - began[i])) s"
    if [ "$status" -eq 3 ]; then
      summary+=("$name: left out. $counts")
    elif [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
      passed=$((passed + BASH_REMATCH[1]))
      failed=$((failed + BASH_REMATCH[2]))
      summary+=("$name: $counts, $((SECONDS - began[i])) s${fc_test_left_out[$major]:+; not tested: ${fc_test_left_out[$major]}}")
      [ ! -s "$kept/failures" ] || sed "s|^PostgreSQL $major, |--- $name: |" "$kept/failures" >>"$logs/failures"
    else
      summary+=("$name: broke off: $counts")
      failed=$((failed + 1))
      { echo "--- $name broke off ($kept/output):" && tail -n 10 "$kept/output" | cut -c 1-160 | sed 's/^/  /'; } >>"$logs/failures"
    fi
  done
  [ -z "$guard" ] || pkill -P "$guard" || true
  if [ -n "$out_of_time" ]; then
    fc_test_leave
    for ((i = 0; i < ${#lines[@]}; i++)); do
      fc_test_line "$i"
      [ "$i" -ge "$next" ] || [[ " ${line_of[*]} " == *" $i "* ]] || continue
      failed=$((failed + 1))
      summary+=("$name: not finished after $FC_MINUTES minutes")
      {
        echo "--- $name: not finished after $FC_MINUTES minutes; its last lines ($kept/):"
        for file in "$kept/failures" "$kept/output"; do
          [ ! -s "$file" ] || tail -n 5 "$file" | cut -c 1-160 | sed 's/^/  /'
        done
      } >>"$logs/failures"
    done
  fi
  if [ -s "$logs/failures" ]; then
    echo
    echo "=== failed"
    awk 'NR <= 70 { print } END { if (NR > 70) print "... " NR - 70 " more lines in build/test-logs-all/failures" }' "$logs/failures"
  fi
  echo
  echo "=== all servers, $SECONDS s"
  printf '%s\n' "${summary[@]}"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

fc_test_clock() { printf '%d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }
