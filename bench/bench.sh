#!/usr/bin/env bash
# Measures what pg_flashcache promises, each figure as a ratio of arms that are run in turns.
#
#   bench/bench.sh [--server MAJOR] FIGURE... [--reps N] [--seconds N] [--scale N] [--set NAME=VALUE] [--flash DIR] [--dir DIR]
#                  [--out FILE] [--keep] [--stock]
#   bench/bench.sh [--server MAJOR] all
#
#   latency    average latency without / with flash of 1/3 and 47% of a 3 GB database   (lab disk)
#   hits       random page reads, all flash hits / fio on the same file
#   resident   pgbench -S, everything in shared_buffers, loaded / not loaded
#   misses     nothing but misses, loaded / not loaded                                  (page cache, lab disk)
#   scan       sequential scan, half of the table in flash, loaded / not loaded         (lab disk)
#   flashscan  sequential and bitmap scan of a table that is all in flash / fio, same request size and depth   (lab disk)
#   async      scans of a table that is not in flash, read asynchronously: loaded / not loaded, 18 and later   (lab disk)
#   capture    clean evictions captured / evictions, at 10,000 a second
#   writes     flash page writes / buffer-pool misses, admission auto and all
#   memory     shared memory per slot
#
#   --server MAJOR PostgreSQL 15 (the default), 17, 18 or 19; 16 where it is installed. Where this machine does not have it, it
#                  comes from a later Debian suite, unpacked into build/servers/MAJOR-bench, and runs there (as root)
#   --reps N       repetitions of every arm; medians are printed (default: 3; hits, resident, misses and flashscan 5)
#   --seconds N    length of one measurement (each figure has its default)
#   --scale N      size of the pgbench database, where there is one (for trying the harness)
#   --set NAME=VALUE   a setting of every server, such as io_method=io_uring; may be repeated
#   --flash DIR    a folder on the flash device to be measured (default: in the temporary folder)
#   --dir DIR      make the temporary folder in DIR (default: ${TMPDIR:-/tmp}, or /var/tmp if that is in memory); up to 12 GB
#   --out FILE     JSON lines go here (default: results/bench-DATE.jsonl)
#   --keep         leave the temporary folder behind
#   --stock        only the arms without the extension (for trying the harness)
#
# docs/bench.md says how to read it. Goals are printed beside the figures; nothing passes or fails.
set -euo pipefail
# As the first process of a namespace it would ignore signals that it has no trap for.
trap 'exit 130' INT
trap 'exit 143' TERM HUP

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source=SCRIPTDIR/../lab/cluster.sh disable=SC1091
. "$here/../lab/cluster.sh"
# shellcheck source=SCRIPTDIR/lib/record.sh disable=SC1091
. "$here/lib/record.sh"
# shellcheck source=SCRIPTDIR/lib/common.sh disable=SC1091
. "$here/lib/common.sh"

# shellcheck source=SCRIPTDIR/lib/server.sh disable=SC1091
. "$here/lib/server.sh"

FIGURES=(latency hits resident misses scan flashscan async capture writes memory)

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

# Read by the figures.
BENCH_REPS='' # empty: what the figure finds right
BENCH_SECONDS=''
BENCH_SCALE=''
BENCH_STOCK=no

dir=$(lab_place)
figures=()
options=() # as given, for a run inside a folder
while [ $# -gt 0 ]; do
  case $1 in
    --reps | --seconds | --scale)
      [[ ${2-} =~ ^[1-9][0-9]{0,5}$ ]] || lab_die "$1 takes a number"
      printf -v "BENCH_$(tr a-z- A-Z_ <<<"${1#--}")" %s "$2"
      options+=("$1" "$2")
      shift 2
      ;;
    --server)
      [[ ${2-} =~ ^1[5-9]$ ]] || lab_die "--server takes 15, 16, 17, 18 or 19"
      lab_major "$2"
      shift 2
      ;;
    --set)
      [[ ${2-} =~ ^[a-z_.]+=. ]] || lab_die "--set takes NAME=VALUE"
      LAB_SETTINGS+=("$2")
      options+=("$1" "$2")
      shift 2
      ;;
    --flash)
      LAB_FLASH_PLACE=${2:?--flash takes a folder}
      [ -d "$LAB_FLASH_PLACE" ] || lab_die "$LAB_FLASH_PLACE is not a folder"
      shift 2
      ;;
    --dir) dir=${2:?--dir takes a folder}; shift 2 ;;
    --out) BENCH_OUT=${2:?--out takes a file}; shift 2 ;;
    --keep) LAB_KEEP=yes; options+=("$1"); shift ;;
    --stock) BENCH_STOCK=yes; options+=("$1"); shift ;;
    -h | --help) usage; exit ;;
    all) figures=("${FIGURES[@]}"); shift ;;
    *)
      [[ " ${FIGURES[*]} " == *" $1 "* ]] || { usage >&2; exit 2; }
      figures+=("$1")
      shift
      ;;
  esac
done
[ ${#figures[@]} -gt 0 ] || { usage >&2; exit 2; }
lab_check_place "$dir" 12000

BENCH_OUT=${BENCH_OUT:-$LAB_ROOT/results/bench-$(date +%Y%m%d-%H%M%S).jsonl}
mkdir -p "$(dirname "$BENCH_OUT")"
BENCH_OUT=$(realpath "$BENCH_OUT")

bench_elsewhere "$dir" "${options[@]}" "${figures[@]}"

lab_packages
fc_need_packages fio liburing-dev # without the latter the cache would be off
BENCH_SERVER=$("$LAB_BIN/postgres" --version | awk '{ print "PostgreSQL", $3 }')
for figure in "${figures[@]}"; do
  # shellcheck source=/dev/null
  . "$here/lib/$figure.sh"
  lab_open "$dir/pg_flashcache_bench"
  BENCH_VALUES=$LAB_DIR/values
  : >"$BENCH_VALUES"
  [ "$BENCH_STOCK" = yes ] || lab_run lab_build || lab_die "the extension could not be built (--stock runs the arms that do without)"
  bench_conditions "$figure"
  "figure_$figure"
  lab_remove
done
echo "recorded in ${BENCH_OUT_OUTSIDE:-$BENCH_OUT}"
