#!/usr/bin/env bash
# Sourced by test.sh: what several stages share (test/stages/).
#
#   server COMMAND...          as a user that PostgreSQL accepts, with the private server first in PATH
#   stage_directory NAME       makes a directory for the servers of a stage and prints its path, which is short
#   analysis_directory NAME    the same for a run of test.sh within a stage
#   run_own_suite ...          `regress` or `isolation`; prints `N passed, N failed` last
#   run_prove NAME SCRIPT...   TAP scripts, in the directory NAME; one that hangs is ended; then
#   count_prove NAME           what the failed ones logged, and `N passed, N failed`
#   sum_suites FILE N STATUS   the sum of N such lines in what several suites printed
#   upstream_tests             unpacks PostgreSQL's own tests
#   upstream_suite NAME        runs core or isolation of them
#   run_torture NAME ARGUMENTS test/torture/torture.py in the directory NAME; ARGUMENTS are words
#
# A stage is run in a process of its own, with its output in a log, and finds:
#
#   major          of the server under test; FC_BINDIR, FC_LIBDIR, FC_PG_CONFIG ...: lib/private-server.sh
#   root           the checkout; nothing is written there but below build/
#   tree           the copy of it in which the extension was built, with failpoints
#   work, run      directories that are removed at the end; run is the servers' own, TMPDIR is below work
#   places         for lib/root-places.sh
#   logs           where the logs are, and where a stage may leave more
#
# shellcheck disable=SC2154  # they are test.sh's

server() {
  (cd "$run" && fc_as_postgres env PATH="$FC_BINDIR:$PATH" "$@")
}

stage_directory() {
  fc_as_postgres mkdir -p "$run/$1"
  echo "$run/$1"
}

analysis_directory() {
  mkdir -p "$work/$1"
  chmod 755 "$work/$1"
  echo "$work/$1"
}

# run_own_suite SUITE FOLDER SUFFIX [DIRECTORY]: all its tests, in the order of the names.
run_own_suite() {
  local suite=$1 folder=$2 suffix=$3 directory=${4:-$1} file
  local -a tests=()
  for file in "$tree/test/$suite/$folder"/*"$suffix"; do
    [ ! -f "$file" ] || tests+=("$(basename "$file" "$suffix")")
  done
  server "$tree/test/lib/run-regress.sh" "$suite" "$tree/test/$suite" "$(stage_directory "$directory")" "${tests[@]}"
}

run_prove() {
  local directory status=0
  directory=$(stage_directory "$1")
  shift
  # The TAP modules append this file to every postgresql.conf.
  echo "${FC_EXTRA_CONF:-}" >"$work/extra.conf"
  # From 16 on there are two more variables; where they are not set, the scripts write into the folder they are run in.
  # A script that takes longer than any does is ended: it stops its servers, and says where it was.
  server env TEMP_CONFIG="$work/extra.conf" TESTDIR="$directory" TESTDATADIR="$directory/tmp_check" \
    TESTLOGDIR="$directory/tmp_check/log" PG_REGRESS="$FC_PGXS_TEST/regress/pg_regress" PG_TEST_PORT_DIR="$directory/ports" \
    FC_PRODUCTION="$work/production/pg_flashcache.so" FC_WITHOUT_LIBURING="$work/without-liburing/pg_flashcache.so" \
    PERL5LIB="$FC_PGXS_TEST/perl:$tree/test/lib" \
    prove --jobs 3 --timer --exec "timeout --foreground --verbose --kill-after=60 ${FC_SCRIPT_SECONDS:-720} perl" "$@" 2>&1 |
    tee "$work/prove" || status=$?
  echo "$status" >"$work/prove.status"
}

count_prove() {
  local directory=$run/$1 all failed name
  all=$(sed -nE 's/^Files=[0-9]+, Tests=([0-9]+),.*/\1/p' "$work/prove")
  # A script that died, or ran too few tests, counts as one more failed test.
  failed=$(sed -nE 's/.*\(Wstat: .* Tests: [0-9]+ Failed: ([0-9]+)\).*/\1/p' "$work/prove" |
    awk '{ n += $1 > 0 ? $1 : 1; known += $1 } END { print n + 0, known + 0 }')
  all=$((${all:-0} - ${failed#* }))
  failed=${failed% *}
  [ "$(cat "$work/prove.status")" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  # What a failed script was doing stands in a log of its own.
  sed -nE 's/^.*\/([0-9a-z_]+)\.pl +\(Wstat: .*/\1/p' "$work/prove" | while read -r name; do
    echo "--- the end of what $name logged:"
    tail -n 40 "$directory/tmp_check/log/regress_log_$name" || true
  done
  echo "$all passed, $failed failed"
}

sum_suites() {
  local counts passed failed suites
  counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$1" |
    awk '{ p += $1; f += $2 } END { print p + 0, f + 0, NR }')
  read -r passed failed suites <<<"$counts"
  # A suite that broke off has said nothing.
  [ "$suites" -eq "$2" ] || failed=$((failed + 1))
  [ "$3" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  echo "$passed passed, $failed failed"
}

upstream_tests() {
  PATH=$FC_BINDIR:$PATH "$tree/test/upstream/prepare.sh" "$work/upstream" "$root/build/upstream"
  [ "$(id -u)" -ne 0 ] || chown -R postgres "$work/upstream"
}

upstream_suite() {
  upstream_tests
  # shellcheck disable=SC2086  # the arms are words
  server "$tree/test/upstream/run.sh" "$1" "$work/upstream" "$(stage_directory "u-$1")" ${FC_ARMS:-}
}

# With the Python and the libpq that are beside the server. Of psycopg that is the part which is written in Python: it suits any
# version of both.
run_torture() {
  fc_python_make "$root"
  mkdir "$work/python"
  cp -r "$(fc_python "$root")"/../lib/python3*/site-packages/{psycopg,typing_extensions.py} "$work/python/"
  # shellcheck disable=SC2086  # the arguments are words
  server env PSYCOPG_IMPL=python PYTHONPATH="$work/python" python3 -B "$tree/test/torture/torture.py" $2 "$(stage_directory "$1")"
}
