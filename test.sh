#!/usr/bin/env bash
# Installs what the tests need, builds the extension with -Werror, and runs all tests.
#
# usage: ./test.sh [--server MAJOR] [--keep] [STAGE...]   all stages that this major can run, or those named
#        ./test.sh [--server MAJOR] --list                names them
#        ./test.sh --all                                  all on 15, then the majors after it (test/server/all.sh)
#        ./test.sh --full                                 all on every major: hours
#
# MAJOR is 15 unless it is named. 15 is Debian 12's own; 16 comes from a Python wheel; 17, 18 and 19 come from later Debian
# suites, unpacked into a folder in which the same stages run (as root): test/README.md.
#
# Works on a bare Debian 12 as root or with sudo; with everything installed nobody needs to be root. Nothing of the
# machine's PostgreSQL is touched: the extension goes into a private copy of it (test/lib/private-server.sh) below
# TMPDIR, with everything else that the tests write, and all of it is removed at the end, also after an interruption.
# --keep leaves it. What a stage printed is in build/test-logs/ (build/test-logs-MAJOR/ for another than 15), and the files
# of a failed stage are beside it. In the environment, FC_EXTRA_CONF has lines for the postgresql.conf of every cluster, and
# FC_TAP how the name of a TAP script begins that is to run alone, and FC_ARMS the sizes of cache, in slots, with which
# PostgreSQL's own suites are run (test/upstream/run.sh), and FC_RECOVERY which of its TAP scripts (test/upstream/recovery.sh),
# FC_FUZZ_SECONDS and FC_SEED are for the stage fuzz, FC_SANITIZE for the stages sanitize and valgrind (test/sanitize/run.sh),
# FC_TORTURE has arguments for test/torture/torture.py, and FC_LOGS is where the logs go instead.
#
# The last line is `N passed, N failed`. The exit status is 0 only when something passed and nothing failed.
set -euo pipefail
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tools/packages.sh
. "$root/tools/packages.sh"
# shellcheck source=test/lib/private-server.sh
. "$root/test/lib/private-server.sh"
# shellcheck source=tools/debian.sh
. "$root/tools/debian.sh"
# shellcheck source=test/server/wheel.sh
. "$root/test/server/wheel.sh"
# shellcheck source=test/server/all.sh
. "$root/test/server/all.sh"
# shellcheck source=test/upstream/fetch.sh
. "$root/test/upstream/fetch.sh"
# shellcheck source=test/lib/root-places.sh
. "$root/test/lib/root-places.sh"
# shellcheck source=tools/python.sh
. "$root/tools/python.sh"

# A guard against a hang, far above what a stage takes; no test passes or fails by its speed.
longest_stage_s=2400
longest_long_stage_s=14400

keep=0
list=0
major=15
chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --all | --full)
      fc_test_all "$root/test.sh" "$1"
      exit
      ;;
    --server)
      major=${2:-}
      shift
      ;;
    --list) list=1 ;;
    --keep) keep=1 ;;
    *) chosen+=("$1") ;;
  esac
  shift
done
mapfile -t stages < <(fc_test_stages "$major")
if [ ${#stages[@]} -eq 0 ]; then
  echo "no such server: $major; there are: ${!fc_test_left_out[*]}" >&2
  exit 2
fi
if [ "$list" -eq 1 ]; then
  printf '%s\n' "${stages[@]}"
  exit 0
fi
mapfile -t long_stages < <(fc_test_long_stages "$major")
for stage in "${chosen[@]}"; do
  if ! grep -qxF -- "$stage" < <(printf '%s\n' "${stages[@]}" "${long_stages[@]}"); then
    echo "PostgreSQL $major has no stage $stage; there are: ${stages[*]} ${long_stages[*]}${fc_test_left_out[$major]:+ (${fc_test_left_out[$major]})}" >&2
    exit 2
  fi
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${stages[@]}")

tools=(binutils bzip2 dpkg-dev e2fsprogs gcc libipc-run-perl liburing-dev make perl python3 xz-utils)
export FC_PG_MAJOR=$major
mkdir -p "$root/build"

# A major that this machine has, or can have, is tested on the machine itself; so it is inside a folder made for it.
if [ -z "${PG_CONFIG:-}" ] && [ -n "${fc_debian_suite[$major]:-}" ] && [ -n "$(fc_missing_packages "postgresql-$major")" ]; then
  fc_debian_can "$major" >&2 || exit 3
  fc_debian_make "$major" "$root/build/servers/$major" "${tools[@]}"
  outside=$(mktemp -d "${TMPDIR:-/tmp}/fc-test.XXXXXX")
  inside=
  # Inside is another test.sh, which cleans up on a signal; whatever it leaves ends with its namespaces.
  # shellcheck disable=SC2317  # called by the traps
  leave() {
    trap - EXIT INT TERM HUP
    if [ -n "$inside" ]; then
      kill -TERM -- "-$inside" 2>/dev/null || true
      wait "$inside" 2>/dev/null || true
    fi
    if [ "$keep" -eq 1 ]; then
      echo "its /tmp is $outside"
    else
      rm -rf "$outside"
    fi
  }
  trap leave EXIT
  trap 'leave; exit 130' INT TERM HUP
  chmod 1777 "$outside"
  options=(--server "$major")
  [ "$keep" -eq 0 ] || options+=(--keep)
  for stage in "${chosen[@]}"; do
    case $stage in
      # Outside, where apt knows the network.
      core | core-isolation | core-recovery) fc_upstream_fetch "$root/build/upstream" "$root/build/servers/$major" >/dev/null ;;
    esac
  done
  set -m
  fc_debian_run "$root/build/servers/$major" "$root" "$root/build" "$outside" /usr/bin/env -i PATH=/usr/sbin:/usr/bin \
    FC_EXTRA_CONF="${FC_EXTRA_CONF:-}" FC_TAP="${FC_TAP:-}" FC_ARMS="${FC_ARMS:-}" FC_RECOVERY="${FC_RECOVERY:-}" FC_TORTURE="${FC_TORTURE:-}" /project/test.sh "${options[@]}" "${chosen[@]}" </dev/null &
  inside=$!
  set +m
  status=0
  wait "$inside" || status=$?
  inside=
  exit "$status"
fi

packages=("${tools[@]}")
if [ -z "${PG_CONFIG:-}" ] && [ "$major" -ne 16 ]; then
  packages+=("postgresql-$major" "postgresql-server-dev-$major")
fi
if grep -qx lint < <(printf '%s\n' "${chosen[@]}"); then
  packages+=(clang-tidy cppcheck shellcheck python3-venv)
fi
if grep -qx model < <(printf '%s\n' "${chosen[@]}"); then
  packages+=(spin)
fi
if grep -qx pilot < <(printf '%s\n' "${chosen[@]}"); then
  packages+=(chromium python3-venv sysbench)
  [ "$(id -u)" -ne 0 ] || packages+=(fuse3 libfuse3-dev pkg-config mount)
fi
fc_need_packages "${packages[@]}"

logs=$root/build/test-logs
[ "$major" -eq 15 ] || logs=$logs-$major
logs=${FC_LOGS:-$logs}
work=$(mktemp -d "${TMPDIR:-/tmp}/fc-test.XXXXXX")
work=$(cd "$work" && pwd -P)
tree=$work/tree
run=$work/run
places=$work/places
stage_group=
guard_group=

end_group() {
  if [ -n "$1" ]; then
    kill -TERM -- "-$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
  fi
}

# Stops every server that was left behind, then removes everything.
clean_up() {
  local pidfile
  trap - EXIT INT TERM HUP
  end_group "$guard_group"
  end_group "$stage_group"
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
trap clean_up EXIT
trap 'echo "interrupted" >&2; clean_up; exit 130' INT TERM HUP

chmod 755 "$work"
mkdir -p "$logs" "$run" "$work/tmp"
chmod 1777 "$work/tmp"
export TMPDIR=$work/tmp
export HOME=$run # the user's .psqlrc and .pgpass are no part of the tests
export LC_ALL=C.UTF-8
unset PGHOST PGPORT PGUSER PGDATABASE PGDATA PGSERVICE PGOPTIONS
[ "$(id -u)" -ne 0 ] || chown postgres "$run"

# A server command of a stage: as a user that PostgreSQL accepts, with the private server first in PATH.
server() {
  (cd "$run" && fc_as_postgres env PATH="$FC_BINDIR:$PATH" "$@")
}

# A directory of its own for a stage, owned by the user of the servers.
stage_directory() {
  fc_as_postgres mkdir -p "$run/$1"
  echo "$run/$1"
}

# lint_check WHAT COMMAND...: one check of the lint stage
lint_check() {
  local what=$1
  shift
  if "$@"; then
    lint_passed=$((lint_passed + 1))
  else
    lint_failed=$((lint_failed + 1))
    echo "not ok: $what"
  fi
}

stage_lint() {
  local file
  lint_passed=0
  lint_failed=0
  cd "$root"
  while read -r file; do
    lint_check "shellcheck $file" shellcheck --external-sources "$file"
  done < <(list_files | while read -r file; do
    head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh$' && echo "$file"
  done)
  while read -r file; do
    lint_check "python3 $file" python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file"
  done < <(list_files | grep '\.py$')
  while read -r file; do
    lint_check "perl -c $file" env PERL5LIB="$FC_PGXS_TEST/perl:$root/test/lib" perl -c "$file"
  done < <(list_files | grep -E '\.(pl|pm)$')
  for file in test/lib/check-includes.py test/lib/check-windows.py test/upstream/compare.py test/upstream/end_copy.py; do
    lint_check "$file, self-test" "$file" --self-test
  done
  lint_check "include graph" test/lib/check-includes.py src
  lint_check "windows of the protocol" test/lib/check-windows.py .
  lint_check "cppcheck" test/lib/analyse.sh cppcheck . "$FC_PG_CONFIG"
  lint_check "clang-tidy" test/lib/analyse.sh clang-tidy . "$FC_PG_CONFIG"
  fc_python_make "$root"
  lint_check "ruff check" "$(fc_python "$root")/ruff" check --quiet --no-cache pgflash test/pilot
  lint_check "ruff format" "$(fc_python "$root")/ruff" format --check --quiet --no-cache pgflash test/pilot
  lint_check "mypy" "$(fc_python "$root")/mypy" --no-error-summary --cache-dir="$work/mypy"
  echo "$lint_passed passed, $lint_failed failed"
}

# The files of the project below the current directory. A tree without git (a release) is taken whole.
list_files() {
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard | while read -r file; do
      [ ! -f "$file" ] || echo "$file"
    done
  else
    find . -type f -not -path './build/*' -not -path './.git/*'
  fi
}

# The protocol, checked by spin.
stage_model() {
  "$root/test/model/run.sh" "$work/model"
}

stage_build() {
  fc_private_build "$root" "$tree"
  fc_private_install "$tree"
  [ "$major" -ne 16 ] || fc_wheel_contrib "$tree/test/server/standin"
  cmp "$("$FC_SYSTEM_CONFIG" --bindir)/postgres" "$FC_BINDIR/postgres"
  "$FC_BINDIR/postgres" --version
  "$root/test/lib/built-for.sh" "$root" "$FC_PG_CONFIG" "$work/built-for"
  # What users build: all the same but for the failpoints, of which it must know nothing.
  fc_private_production "$root" "$work/production"
  local library
  for library in "$tree" "$work/production"; do
    nm -D --defined-only "$library/pg_flashcache.so" | awk '$3 ~ /failpoint/ { n++ } END { print n + 0 }'
  done | tee "$work/failpoints"
  fc_private_without_liburing "$work/production" "$work/without-liburing"
  [ "$(tr '\n' ' ' <"$work/failpoints")" = "4 0 " ] # two functions and what describes them
  echo "1 passed, 0 failed"
}

# The server's own machine code: whether its storage manager calls through the table that we change.
stage_calls() {
  "$root/test/lib/check-calls.py" --self-test
  "$root/test/lib/check-calls.py" "$FC_BINDIR/postgres" "$root/src/attach/shape.c"
}

stage_unit() {
  make -C "$tree/test/unit" --no-print-directory check
}

stage_regress() {
  run_own_suite regress sql .sql
}

stage_isolation() {
  run_own_suite isolation specs .spec
}

# The extension built against the newer of two minor releases, in both.
stage_minors() {
  local config counts passed failed suites status=0
  config=$(fc_wheel_unpack "$root/build/servers/$major" "$work/old" old)
  (
    new=$FC_BINDIR
    library=$FC_LIBDIR/pg_flashcache.so
    # shellcheck disable=SC2030  # of this shell
    PG_CONFIG=$config
    fc_private_server "$work/old/pg"
    fc_private_install "$tree"
    fc_wheel_contrib "$tree/test/server/standin"
    cmp "$library" "$FC_LIBDIR/pg_flashcache.so"
    run_own_suite regress sql .sql minors-regress || true
    server "$tree/test/minors/run.sh" "$FC_BINDIR" "$new" "$(stage_directory minors)"
  ) 2>&1 | tee "$work/minors" || status=$?
  counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$work/minors" | awk '{ p += $1; f += $2 } END { print p + 0, f + 0, NR }')
  read -r passed failed suites <<<"$counts"
  # A suite that broke off has said nothing.
  [ "$suites" -eq 2 ] || failed=$((failed + 1))
  [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  echo "$passed passed, $failed failed"
}

# Our own suites run all their tests, in the order of the names.
run_own_suite() {
  local suite=$1 folder=$2 suffix=$3 directory=${4:-$1} file
  local -a tests=()
  for file in "$tree/test/$suite/$folder"/*"$suffix"; do
    [ ! -f "$file" ] || tests+=("$(basename "$file" "$suffix")")
  done
  server "$tree/test/lib/run-regress.sh" "$suite" "$tree/test/$suite" "$(stage_directory "$directory")" "${tests[@]}"
}

stage_tap() {
  # shellcheck disable=SC2086  # FC_TAP is the beginning of the names
  run_tap tap "$tree"/test/tap/${FC_TAP:-}*.pl
}

# A build whose generations, epochs, versions, positions and counters all begin three short of the end of their range.
stage_wrap() {
  local counts suites=3
  (
    export FC_DEFINES="-DFC_START=-3 -DFC_EPOCHS_UNSWEPT=2000"
    fc_private_server "$work/wrapped"
    fc_private_build "$root" "$work/wrapped/tree"
    fc_private_install "$work/wrapped/tree"
    run_own_suite regress sql .sql wrap-regress || true
    run_own_suite isolation specs .spec wrap-isolation || true
    run_tap wrap "$tree"/test/wrap/*.pl "$tree"/test/tap/00*.pl || true
  ) 2>&1 | tee "$work/wrap" || true
  counts=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$work/wrap" |
    awk -v suites="$suites" '{ p += $1; f += $2 } END { print p + 0 " passed, " f + (NR != suites) " failed" }')
  echo "$counts"
}

# run_tap DIRECTORY SCRIPT...
run_tap() {
  local directory status=0 all failed name
  directory=$(stage_directory "$1")
  shift
  # The TAP modules append this file to every postgresql.conf.
  echo "${FC_EXTRA_CONF:-}" >"$work/extra.conf"
  fc_root_places "$places" postgres
  # From 16 on there are two more variables; where they are not set, the scripts write into the folder they are run in.
  server env TEMP_CONFIG="$work/extra.conf" TESTDIR="$directory" TESTDATADIR="$directory/tmp_check" TESTLOGDIR="$directory/tmp_check/log" PG_REGRESS="$FC_PGXS_TEST/regress/pg_regress" PG_TEST_PORT_DIR="$directory/ports" FC_PRODUCTION="$work/production/pg_flashcache.so" FC_WITHOUT_LIBURING="$work/without-liburing/pg_flashcache.so" \
    prove --jobs 2 --timer -I "$FC_PGXS_TEST/perl" -I "$tree/test/lib" "$@" 2>&1 |
    tee "$work/prove" || status=$?
  fc_root_places_away "$places"
  all=$(sed -nE 's/^Files=[0-9]+, Tests=([0-9]+),.*/\1/p' "$work/prove")
  # A script that died, or ran too few tests, counts as one more failed test.
  failed=$(sed -nE 's/.*\(Wstat: .* Tests: [0-9]+ Failed: ([0-9]+)\).*/\1/p' "$work/prove" |
    awk '{ n += $1 > 0 ? $1 : 1; known += $1 } END { print n + 0, known + 0 }')
  all=$((${all:-0} - ${failed#* }))
  failed=${failed% *}
  [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  # What a failed script was doing stands in a log of its own.
  sed -nE 's/^.*\/([0-9a-z_]+)\.pl +\(Wstat: .*/\1/p' "$work/prove" | while read -r name; do
    echo "--- the end of what $name logged:"
    tail -n 40 "$directory/tmp_check/log/regress_log_$name" || true
  done
  echo "$all passed, $failed failed"
}

stage_core() {
  upstream_suite core
}

stage_core-isolation() {
  upstream_suite isolation
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

# pgflash's own tests. The servers of its studies are the private one.
stage_pilot() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  [ "$(id -u)" -eq 0 ] || echo "not root: the tiny studies run on a plain folder, without the lab's disk and without a memory limit"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp "$(fc_python "$root")/python" -m pytest -rs --durations=10 "--junit-xml=$work/pilot.xml" test/pilot) ||
    status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/pilot.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}

stage_core-recovery() {
  upstream_tests
  server "$tree/test/upstream/recovery.sh" "$work/upstream" "$(stage_directory u-recovery)" \
    "$tree/src" "${FC_RECOVERY:-short}"
}

stage_fuzz() {
  local passed=0 failed=0 seed status=0
  seed=${FC_SEED:-$(($(date +%s) % 100000))}
  make -C "$tree/test/fuzz" --silent --no-print-directory CC="${CC:-gcc}" PG_CONFIG="$FC_PG_CONFIG" OUT="$work/fuzz"
  if "$work/fuzz/fuzz" "$seed" "${FC_FUZZ_SECONDS:-30}"; then passed=1; else failed=1; fi
  server "$tree/test/fuzz/device.sh" "$(stage_directory fuzz)" "${FC_FUZZ_SECONDS:-30}" "$seed" 2>&1 | tee "$work/fuzzed" || status=$?
  if [[ $(tail -n 1 "$work/fuzzed") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
  fi
  [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  echo "$passed passed, $failed failed"
}

stage_sanitize() {
  "$root/test/sanitize/run.sh" address "$(analysis_directory address)"
}

stage_valgrind() {
  "$root/test/sanitize/run.sh" valgrind "$(analysis_directory valgrind)"
}

# For a run of this script within this one.
analysis_directory() {
  mkdir -p "$work/$1"
  chmod 755 "$work/$1"
  echo "$work/$1"
}

# Two minutes of one seed, so that a run of all tests repeats the last one, or what FC_TORTURE asks for.
stage_torture-short() {
  FC_TORTURE=${FC_TORTURE:---seed $major} stage_torture
}

stage_torture() {
  # shellcheck disable=SC2086  # FC_TORTURE is a list of arguments
  server python3 -B "$tree/test/torture/torture.py" ${FC_TORTURE:-} "$(stage_directory torture)"
}

stage_health() {
  local directory status=0
  directory=$(stage_directory health)
  # shellcheck disable=SC2086  # FC_TORTURE is a list of arguments
  server python3 -B "$tree/test/torture/torture.py" --health ${FC_TORTURE:---minutes 60} "$directory" || status=$?
  mkdir -p "$logs/health-samples"
  cp "$directory"/samples.jsonl "$directory"/health.* "$logs/health-samples/" 2>/dev/null || true
  return "$status"
}

# The server as in a container: as root, who can make one.
stage_container() {
  mkdir "$work/container"
  (cd "$run" && env PATH="$FC_BINDIR:$PATH" "$tree/test/container/run.sh" "$work/container" postgres)
}

# Keeps what helps to understand a failure; data directories are left out.
keep_evidence() {
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

passed=0
failed=0
summary=()

run_stage() {
  local stage=$1 began=$SECONDS status=0 counts
  if [ "$stage" = container ] && ! { [ "$(id -u)" -eq 0 ] && unshare --mount true; } 2>/dev/null; then
    summary+=("$(printf '%-16s left out: it takes root, and a machine that lets root mount' "$stage")")
    echo "${summary[-1]}"
    return 0
  fi
  rm -rf "${logs:?}/$stage" "$logs/$stage.log"
  printf '%-16s ...\n' "$stage"
  # In a process group of its own, so that an interruption can end all of it.
  set -m
  (
    set -euo pipefail
    "stage_$stage"
  ) >"$logs/$stage.log" 2>&1 </dev/null &
  stage_group=$!
  (
    case $stage in
      torture | health) exit ;; # as long as asked for; they have guards of their own
      sanitize | valgrind) sleep "$longest_long_stage_s" ;;
      *) sleep "$longest_stage_s" ;;
    esac
    kill -TERM -- "-$stage_group"
  ) >/dev/null 2>&1 &
  guard_group=$!
  set +m
  wait "$stage_group" || status=$?
  end_group "$guard_group"
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
    keep_evidence "$stage"
    echo "--- the end of $logs/$stage.log:"
    tail -n 80 "$logs/$stage.log"
    echo "---"
  fi
}

# shellcheck disable=SC2031  # of this shell
if [ -z "${PG_CONFIG:-}" ] && [ "$major" -eq 16 ]; then
  PG_CONFIG=$(fc_wheel_unpack "$root/build/servers/16" "$work")
  export PG_CONFIG
fi
fc_private_server "$work/pg"

# Everything but lint and the model needs the build.
if grep -qvxE 'lint|model' < <(printf '%s\n' "${chosen[@]}") && ! grep -qx build < <(printf '%s\n' "${chosen[@]}"); then
  chosen=(build "${chosen[@]}")
fi
for stage in "${chosen[@]}"; do
  run_stage "$stage"
  if [ "$stage" = build ] && [ ! -e "$FC_LIBDIR/pg_flashcache.so" ]; then
    summary+=("nothing else could run without a build")
    break
  fi
done

echo
echo "all stages took $SECONDS s"
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
