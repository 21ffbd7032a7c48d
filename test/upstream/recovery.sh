#!/usr/bin/env bash
# Runs PostgreSQL's own TAP suites, the recovery suite above all, on servers with a cache.
#
# usage: recovery.sh TESTS DIR SOURCES [SELECTION]
#   TESTS      upstream's unpacked tests made ready by prepare.sh
#   DIR        an empty directory for clusters, caches and logs, on a short path
#   SOURCES    the src/ of this project
#   SELECTION  short (default): crash, standby, promotion, tablespaces, databases, and what is quick beside them;
#              full: the whole recovery suite, and the suites of the programs that read or write data files themselves;
#              or the scripts themselves, as in "src/test/recovery/t/013_crash_restart.pl"
#
# Each cluster has 48 shared buffers and a cache of 64 slots, and every hit is compared with the disk. bin/pg_ctl says how
# each of them gets a cache file of its own; the suites are upstream's to the byte. tally.c writes down what each cache has
# counted.
#
# Prints a report; last line `N passed, N failed`. A script that fails is run again on the stock server, and counts only if
# it passes there. After the scripts, over all clusters: there were hits, each was compared, and nothing was ever wrong; no
# log has a warning of ours.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/check.sh"
tests=$1
dir=$2
sources=$3
selection=${4:-short}
major=$(pg_config --version | sed -E 's/^PostgreSQL ([0-9]+).*/\1/')
bindir=$(pg_config --bindir)
pgxs_test=$(pg_config --pkglibdir)/pgxs/src/test

short=(
  src/test/recovery/t/001_stream_rep.pl
  src/test/recovery/t/004_timeline_switch.pl
  src/test/recovery/t/008_fsm_truncation.pl
  src/test/recovery/t/009_twophase.pl
  src/test/recovery/t/012_subtransactions.pl
  src/test/recovery/t/013_crash_restart.pl
  src/test/recovery/t/014_unlogged_reinit.pl
  src/test/recovery/t/015_promotion_pages.pl
  src/test/recovery/t/016_min_consistency.pl
  src/test/recovery/t/018_wal_optimize.pl
  src/test/recovery/t/022_crash_temp_files.pl
  src/test/recovery/t/028_pitr_timelines.pl
  src/test/recovery/t/032_relfilenode_reuse.pl
  src/test/recovery/t/033_replay_tsp_drops.pl
  src/test/recovery/t/034_create_database.pl
  src/test/recovery/t/036_truncated_dropped.pl
  src/test/recovery/t/037_invalid_database.pl
)

# Suites of programs that read or write data files, or take servers through recovery.
suites=(src/test/recovery src/bin/pg_amcheck src/bin/pg_basebackup src/bin/pg_checksums src/bin/pg_combinebackup
  src/bin/pg_ctl src/bin/pg_rewind src/bin/pg_verifybackup contrib/amcheck contrib/bloom)

scripts=()
case $selection in
  short) scripts=("${short[@]}") ;;
  full)
    for suite in "${suites[@]}"; do
      for script in "$tests/$suite"/t/*.pl; do
        scripts+=("${script#"$tests/"}")
      done
    done
    ;;
  *) read -ra scripts <<<"$selection" ;;
esac

mkdir -p "$dir/caches" "$dir/library"

# A server with the cache: settings for the clusters, and for bin/pg_ctl. What a test sets itself comes after these lines.
cat >"$dir/cache.conf" <<END_OF_CONF
${FC_EXTRA_CONF:-}
pg_flashcache.size = 512kB
$(cat "$here/../lib/cache.conf")
END_OF_CONF
printf '%s\n' "${FC_EXTRA_CONF:-}" >"$dir/stock.conf"
cp "$here/tally.c" "$dir/library/"
cat >"$dir/library/Makefile" <<END_OF_MAKEFILE
MODULES = tally
PG_CPPFLAGS = -iquote $sources
PG_CONFIG = pg_config
PGXS := \$(shell \$(PG_CONFIG) --pgxs)
include \$(PGXS)
END_OF_MAKEFILE
make -C "$dir/library" --silent --no-print-directory with_llvm=no PROFILE=-Werror
# 027_stream_regress runs the regression tests.
"$here/end_copy.py" "$tests"/src/test/regress/sql/*.sql
export FC_REAL_BINDIR=$bindir FC_CACHES=$dir/caches FC_TALLY=$dir/tally FC_TALLY_LIBRARY=$dir/library/tally
: >"$FC_TALLY"

# run_script cache|stock SCRIPT: its output is DIR/HOW/SUITE/NAME.out
run_script() {
  local how=$1 script=$2 suite place path=$bindir
  suite=$(dirname "$(dirname "$script")")
  place=$dir/$how/${suite##*/}
  [ "$how" = stock ] || path=$here/bin:$bindir
  mkdir -p "$place/tmp_check"
  (
    cd "$tests/$suite"
    PATH=$path:$PATH PG_REGRESS=$pgxs_test/regress/pg_regress REGRESS_SHLIB=$tests/src/test/regress/regress.so \
      TEMP_CONFIG=$dir/$how.conf TESTDIR=$place TESTDATADIR=$place/tmp_check TESTLOGDIR=$place/tmp_check/log \
      TAR=tar GZIP_PROGRAM=gzip LZ4='' ZSTD='' OPENSSL=openssl with_icu=no \
      PG_TEST_PORT_DIR=$dir/ports MAKE=make \
      prove -I "$pgxs_test/perl" -I . --merge --verbose "t/${script##*/}"
  ) >"$place/${script##*/}.out" 2>&1 </dev/null
}

# count_script SCRIPT STATUS SECONDS: what a script that ran has shown
count_script() {
  local script=$1 status=$2 seconds=$3 suite out ok
  suite=$(dirname "$(dirname "$script")")
  out=$dir/cache/${suite##*/}/${script##*/}.out
  ok=$(grep -cE '^ok [0-9]' "$out" || true)
  if [ "$status" -eq 0 ] && grep -q '^Result: PASS' "$out"; then
    passed=$((passed + ok))
    echo "ok $script: $ok tests, $seconds s"
  elif [ "$status" -eq 0 ] && grep -q 'skipped:' "$out"; then
    echo "skipped $script: $(sed -nE 's/^.*skipped: //p' "$out" | head -n 1)"
  elif ! run_script stock "$script"; then
    echo "fails on the stock server, too: $script"
  else
    failed=$((failed + 1))
    echo "not ok $script, which passes on the stock server"
    tail -n 40 "$out"
  fi
}

running=()
# shellcheck disable=SC2317  # called by the trap
end_running() {
  local pid
  for pid in "${running[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
}
trap end_running EXIT

# Two at a time: most of what they do is wait.
lane() {
  local script began status
  while read -r script; do
    began=$SECONDS
    status=0
    run_script cache "$script" || status=$?
    echo "$script $status $((SECONDS - began))" >>"$dir/ran"
  done
}
: >"$dir/ran"
chosen=()
for script in "${scripts[@]}"; do
  [ ! -e "$tests/$script" ] || chosen+=("$script")
done
printf '%s\n' "${chosen[@]}" >"$dir/chosen"
for first in 1 2; do
  lane < <(sed -n "$first~2p" "$dir/chosen") &
  running+=($!)
done
wait "${running[@]}"
running=()
while read -r script status seconds; do
  count_script "$script" "$status" "$seconds"
done < <(sort "$dir/ran")

all_ran() {
  [ "$(wc -l <"$dir/ran")" -eq "${#chosen[@]}" ] && [ "${#chosen[@]}" -gt 0 ]
}

# Columns: data directory, hits, misses, inserts, verify checks, verify failures, checksum failures, errors, retired.
tally_is_clean() {
  cat "$FC_TALLY"
  awk '{ hits += $2; checks += $5; wrong += $6 + $7 + $8 + $9 + $10 }
    END { exit !(hits > 0 && checks > 0 && wrong == 0) }' "$FC_TALLY"
}

logs_are_clean() {
  ! grep -rnE '(WARNING|FATAL|PANIC): .*(flash|tally)|pg_flashcache: .*differs' "$dir/cache" --include='*.log' |
    grep -v 'uses a file on the same file system as'
}

check "every script ran" all_ran
check "the caches were used and found nothing wrong" tally_is_clean
check "no warning of the cache in any log" logs_are_clean
awk -v major="$major" '{ data[$1] = 1; if ($2 > 0) used[$1] = 1; h += $2; m += $3; i += $4; c += $5 }
  END { printf "PostgreSQL %s: %d clusters, %d of them with hits; %d runs of a server; hits %d, misses %d, inserts %d, verify checks %d\n",
    major, length(data), length(used), NR, h, m, i, c }' "$FC_TALLY"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
