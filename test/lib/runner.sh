#!/usr/bin/env bash
# Sourced by test.sh: runs stages, and cleans up after them.
#
#   fc_run_begin            makes the directories and variables that stages find (test/lib/suites.sh)
#   fc_run_stage NAME       runs one; what it printed is $logs/NAME.log, the files of one that failed are in $logs/NAME/
#   fc_run_end              the summary, last line `N passed, N failed`; false if something failed or nothing passed
#
# What failed is repeated just before the summary, and is in $logs/failures.
#
# shellcheck disable=SC2154  # root, major, keep: of test.sh

# Guards against a hang, far above what a stage takes; no test passes or fails by its speed.
fc_run_guard_minutes=40

passed=0
failed=0
summary=()
stage_group=
guard_group=

fc_run_begin() {
  logs=$root/build/test-logs
  [ "$major" -eq 15 ] || logs=$logs-$major
  logs=${FC_LOGS:-$logs}
  work=$(mktemp -d "${TMPDIR:-/tmp}/fc-test.XXXXXX")
  work=$(cd "$work" && pwd -P)
  # shellcheck disable=SC2034  # of the stages
  tree=$work/tree
  run=$work/run
  places=$work/places
  trap fc_run_clean_up EXIT
  trap 'echo "interrupted" >&2; fc_run_clean_up; exit 130' INT TERM HUP
  chmod 755 "$work"
  mkdir -p "$logs" "$run" "$work/tmp"
  rm -f "$logs/failures"
  chmod 1777 "$work/tmp"
  export TMPDIR=$work/tmp
  export HOME=$run # the user's .psqlrc and .pgpass are no part of the tests
  export LC_ALL=C.UTF-8
  unset PGHOST PGPORT PGUSER PGDATABASE PGDATA PGSERVICE PGOPTIONS
  [ "$(id -u)" -ne 0 ] || chown postgres "$run"
}

fc_run_end_group() {
  if [ -n "$1" ]; then
    kill -TERM -- "-$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
  fi
}

# Stops every server that was left behind, then removes everything.
fc_run_clean_up() {
  local pidfile
  trap - EXIT INT TERM HUP
  fc_run_end_group "$guard_group"
  fc_run_end_group "$stage_group"
  fc_root_places_release "$places"
  while read -r pidfile; do
    fc_as_postgres "$FC_BINDIR/pg_ctl" --silent --mode=immediate --pgdata="$(dirname "$pidfile")" stop \
      >/dev/null 2>&1 || true
  done < <(find "$work" -name postmaster.pid 2>/dev/null)
  fc_root_places_away "$places"
  if [ "$keep" -eq 1 ]; then
    echo "kept: $work"
  else
    rm -rf "$work"
  fi
}

# Keeps what helps to understand a failure; data directories are left out.
fc_run_keep_evidence() {
  local stage=$1 directory
  for directory in "$run/$stage" "$run/u-${stage#core-}" "$run/${stage%-short}" "$run/$stage"-*; do
    [ -d "$directory" ] || continue
    mkdir -p "$logs/$stage"
    (cd "$directory" && find . -type f -size -20M \
      \( -name '*.diffs' -o -name '*.log' -o -name log -o -name 'console*' -o -name comparison -o -name stats \
      -o -path '*/results/*' -o -path '*/tmp_check/log/*' \) -not -path '*/data/*' -print0 |
      tar --null --files-from=- -cf -) | tar -C "$logs/$stage" --no-same-owner -xf -
  done
}

# The lines of a log that say which tests failed: those of our scripts, of pg_regress, prove, pytest, also of a script that died
# or was ended; or its end.
fc_run_what_failed() {
  local what patterns
  patterns='^ *not ok\b|^#? +Failed test |\.\.\. FAILED|^(FAILED|ERROR) |^_{3,} test.* _{3,}$|\(Wstat: [1-9]|PANIC:'
  patterns+='|^timeout: |^[^#].* at [^ ]+\.p[lm] line [0-9]+\.?$'
  what=$(grep -nE "$patterns" "$1" |
    cut -c 1-160 | awk 'n++ < 15 { print } END { if (n > 15) print "... " n - 15 " more" }') || true # none
  [ -n "$what" ] || what=$(tail -n 6 "$1" | cut -c 1-160)
  printf '%s\n' "$what"
}

fc_run_stage() {
  local stage=$1 began status=0 counts guard
  if [[ $(fc_stage_head "$stage" Rights) == root* ]] && ! { [ "$(id -u)" -eq 0 ] && unshare --mount true; } 2>/dev/null; then
    summary+=("$(printf '%-16s left out: it takes root, and a machine that lets root mount' "$stage")")
    echo "${summary[-1]}"
    return 0
  fi
  guard=$(fc_stage_head "$stage" Guard)
  guard=${guard%% *}
  rm -rf "${logs:?}/$stage" "$logs/$stage.log"
  began=$SECONDS
  printf '%-16s ...\n' "$stage"
  # In a process group of its own, so that an interruption can end all of it.
  set -m
  (
    set -euo pipefail
    # shellcheck source=/dev/null
    . "$(fc_stage_file "$stage")"
    stage
  ) >"$logs/$stage.log" 2>&1 </dev/null &
  stage_group=$!
  (
    [ "$guard" != none ] || exit # it has one of its own
    sleep "$((${guard:-$fc_run_guard_minutes} * 60))"
    kill -TERM -- "-$stage_group"
  ) >/dev/null 2>&1 &
  guard_group=$!
  set +m
  wait "$stage_group" || status=$?
  fc_run_end_group "$guard_group"
  stage_group=
  guard_group=

  local stage_passed=0 stage_failed=0
  counts=$(tail -n 1 "$logs/$stage.log")
  if [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    stage_passed=${BASH_REMATCH[1]}
    stage_failed=${BASH_REMATCH[2]}
  elif [ "$status" -eq 0 ]; then
    stage_passed=1 # a suite that doesn't count its tests is one test
  fi
  # A stage that broke off, or in which nothing was tested, has failed.
  if [ "$stage_failed" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$stage_passed" -eq 0 ]; }; then
    stage_failed=1
  fi
  passed=$((passed + stage_passed))
  failed=$((failed + stage_failed))
  summary+=("$(printf '%-16s %5d passed, %3d failed, %4d s' "$stage" "$stage_passed" "$stage_failed" $((SECONDS - began)))")
  echo "${summary[-1]}"
  if [ "$stage_failed" -gt 0 ]; then
    fc_run_keep_evidence "$stage"
    { echo "PostgreSQL $major, $stage ($logs/$stage.log):" && fc_run_what_failed "$logs/$stage.log" | sed 's/^/  /'; } \
      >>"$logs/failures"
    echo "--- the end of $logs/$stage.log:"
    tail -n 80 "$logs/$stage.log"
    echo "---"
  fi
}

fc_run_end() {
  if [ -s "$logs/failures" ]; then
    echo
    echo "--- failed:"
    cat "$logs/failures"
  fi
  echo
  echo "all stages took $SECONDS s"
  printf '%s\n' "${summary[@]}"
  echo "$passed passed, $failed failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
