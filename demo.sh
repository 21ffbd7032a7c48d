#!/usr/bin/env bash
# Shows what pg_flashcache does, on this machine, in about three minutes:
#
#   ./demo.sh [--dir DIR] [--keep] [--seconds N]
#
# Builds the extension, makes a private PostgreSQL 15 in a temporary folder on an emulated slow disk, loads a
# pgbench database of 1 GB (16 times shared_buffers) and runs the same skewed read load on it without and with
# a flash cache. Then prints both side by side.
#
#   --dir DIR      make the temporary folder in DIR; it needs 4 GB (default: ${TMPDIR:-/tmp}, or /var/tmp if
#                  that is in memory)
#   --keep         leave that folder behind, with the database, the logs and the latency of every transaction
#   --seconds N    length of each of the two measurements (default 30)
#
# Runs as root, or as anybody (with sudo where there is one; the disk is then emulated in a simpler way where
# there is none). Missing Debian packages are installed. Your own clusters, settings and ports are not touched,
# and nothing is left running or mounted, also after Ctrl-C.
set -euo pipefail

# shellcheck source=SCRIPTDIR/lab/cluster.sh disable=SC1091
. "$(dirname "${BASH_SOURCE[0]}")/lab/cluster.sh"

SHARED_BUFFERS_MB=64
LIMIT_MB=200       # shared_buffers, 16 clients and about 100 MB of page cache
SCALE=70           # 1.05 GB
FLASH_MB=480       # 45% of it
DISK_MB=2500       # the database, WAL and room to spare
NEED_MB=4000       # in the folder: disk, flash, build, logs
CLIENTS=16
PLATEAU_S=40       # warming up ends earlier when the hit ratio stands still

dir=$(lab_place)
seconds=30

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

while [ $# -gt 0 ]; do
  case $1 in
    --dir) [ $# -ge 2 ] || { usage >&2; exit 2; }; dir=$2; shift 2 ;;
    --seconds) [ $# -ge 2 ] || { usage >&2; exit 2; }; seconds=$2; shift 2 ;;
    --keep) LAB_KEEP=yes; shift ;;
    -h | --help) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
done
[[ $seconds =~ ^[1-9][0-9]{0,3}$ ]] || lab_die "--seconds takes a number of seconds"

step() { printf '[%2d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

# One line of pgbench's progress report is enough every five seconds.
load_for() {
  local clients_s=$1
  shift
  lab_pgbench demo -n -M prepared -c "$CLIENTS" -j 2 -T "$clients_s" -P 5 -s "$SCALE" -f "$LAB_ROOT/lab/gaussian.sql" "$@" demo 2>&1 |
    awk '/^progress:/ { printf "        %4.0f s  %8.0f transactions/s  %8.2f ms\n", $2, $4, $7; fflush() }
         /aborted|FATAL|ERROR/ { print; fflush(); bad = 1 } END { exit bad }'
}

# hits, misses, those of them that the kernel's page cache had, disk reads: what figures are differences of
counters() {
  local cache='0 0 0'
  [ "$1" = without ] || cache=$(lab_sql demo demo 'SELECT hits, misses, os_cache_hits FROM pg_stat_flashcache')
  echo "$cache $(lab_disk_reads)"
}

# Runs the load and leaves its figures in result[...]: tps, average and p95 in ms, then per second disk reads
# and flash reads, the hit ratio in per cent, and reads from the page cache per second.
declare -A result
measure() {
  local arm=$1 hits misses kernel reads hits0 misses0 kernel0 reads0 transactions average p95
  step "measuring $arm flash, $seconds s at the disk's real speed"
  lab_model slow
  read -r hits0 misses0 kernel0 reads0 < <(counters "$arm")
  lab_run load_for "$seconds" --log --log-prefix="$LAB_DIR/log/$arm"
  read -r hits misses kernel reads < <(counters "$arm")
  lab_model fast
  read -r transactions average p95 < <(lab_latency "$LAB_DIR/log/$arm")
  result[$arm]=$(awk -v n="$transactions" -v average="$average" -v p95="$p95" -v s="$seconds" \
    -v reads=$((reads - reads0)) -v hits=$((hits - hits0)) -v misses=$((misses - misses0)) \
    -v kernel=$((kernel - kernel0)) 'BEGIN { printf "%.0f %.2f %.2f %.0f %.0f %.1f %.0f", n / s, average, p95,
      reads / s, hits / s, hits + misses ? 100 * hits / (hits + misses) : 0, kernel / s }')
}

report() {
  local tps average p95 disk tps1 average1 p951 disk1 flash1 ratio1 kernel1
  read -r tps average p95 disk _ _ <<<"${result[without]}"
  read -r tps1 average1 p951 disk1 flash1 ratio1 kernel1 <<<"${result[with]}"
  row() { printf '  %-26s %14s %14s %10s\n' "$@"; }
  times() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.1f x", a / b }'; }
  echo
  row '' 'without flash' 'with flash' 'better by'
  row 'average latency' "$average ms" "$average1 ms" "$(times "$average" "$average1")"
  row '95th percentile' "$p95 ms" "$p951 ms" "$(times "$p95" "$p951")"
  row 'transactions a second' "$tps" "$tps1" "$(times "$tps1" "$tps")"
  row 'disk reads a second' "$disk" "$disk1" ''
  row 'flash reads a second' - "$flash1" ''
  row 'hit ratio of the cache' - "$ratio1 %" ''
  cat <<X

  pgbench, select only, keys of a Gaussian distribution (parameter 5), $CLIENTS clients, $seconds s each.
  Database $database, shared_buffers $SHARED_BUFFERS_MB MB, memory limit $limit, flash $FLASH_MB MB.
  Disk: $(lab_disk_words).
  Flash: a file in $flash_home. Where the kernel's page cache had the page as well it was
  read from there ($kernel1 a second), which is faster; that is not counted as a hit.
  Both runs were warmed up with the disk's delays suspended.

X
  if [ "$LAB_DISK" = preload ]; then
    cat <<X
  The disk is a fallback here: random reads have the right mean, sequential scans are overcharged, and every
  read is charged, also one that the kernel's page cache answers. Run as root where loop devices and FUSE may
  be mounted for the real model.

X
  elif [ "$limit" = none ]; then
    cat <<X
  No memory limit could be set here (see above): the kernel's page cache hides part of the disk from both runs.

X
  fi
  cat <<X
What to type next, for Debian's own PostgreSQL 15 cluster "main":

  sudo make install
  sudo install -d -o postgres -g postgres -m 0700 /mnt/nvme/pg_flashcache   # on your flash
  sudo tee /etc/postgresql/15/main/conf.d/pg_flashcache.conf <<'EOF'
  shared_preload_libraries = 'pg_flashcache'            # add it to what you have there already
  pg_flashcache.file = '/mnt/nvme/pg_flashcache/cache'
  pg_flashcache.size = '20GB'                           # 2 to 10 times shared_buffers is usual
  EOF
  sudo systemctl restart postgresql@15-main
  sudo -u postgres psql -c 'CREATE EXTENSION pg_flashcache' -c 'SELECT * FROM pg_stat_flashcache'
X
}

# --- what could go wrong later is asked first --------------------------------------------------------------

lab_check_place "$dir" "$NEED_MB"
if [ "$(id -u)" -ne 0 ] && [ -t 0 ] && command -v sudo >/dev/null; then
  sudo -v -p 'password of %u, for installing packages and mounting the emulated disk: ' || true
fi

step "packages: installing what is missing (a fresh Debian 12: about a minute)"
lab_packages
lab_open "$dir/pg_flashcache_demo"
flash_home="$LAB_DIR/flash ($(df --output=fstype "$LAB_DIR" | tail -n 1))"
step "building the extension, in a folder of its own (about 10 s)"
lab_run lab_build || lab_die "the extension could not be built"
lab_disk "$DISK_MB"
step "slow disk: $(lab_disk_words)"
step "a new PostgreSQL $LAB_MAJOR cluster, pgbench database of scale $SCALE (about 20 s; the disk's delays are suspended)"
lab_init demo
lab_start demo "shared_buffers=${SHARED_BUFFERS_MB}MB" fsync=off
lab_run lab_load demo demo "$SCALE"
database=$(lab_sql demo demo "SELECT pg_database_size('demo') / 1048576")\ MB
lab_stop demo

step "without flash: warming up, 5 s with the disk's delays suspended"
lab_drop_cache demo
lab_start demo -m "$LIMIT_MB" "shared_buffers=${SHARED_BUFFERS_MB}MB"
limit=$LAB_LIMIT
lab_run load_for 5
measure without
lab_stop demo

step "with flash, $FLASH_MB MB: warming up, at most $PLATEAU_S s with the disk's delays suspended"
lab_drop_cache demo
lab_flash demo "${FLASH_MB}MB"
lab_start demo -m "$LIMIT_MB" "shared_buffers=${SHARED_BUFFERS_MB}MB" "${LAB_FLASH[@]}"
lab_extension demo demo
lab_wait_active demo demo
lab_warm demo demo "$PLATEAU_S" 5 load_for 5
measure with
report
step "done; removing everything"
