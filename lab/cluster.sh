#!/usr/bin/env bash
# Sourced by demo.sh and bench/: private PostgreSQL clusters on the lab's slow disk, and how to be rid of them. Their major
# version is FC_PG_MAJOR, or 15; it has to be a package of Debian's shape.
#
#   lab_major MAJOR                another major version than FC_PG_MAJOR
#   lab_place                      a folder for temporary files that is on a disk
#   lab_check_place DIR NEED_MB    ends the script if that folder will not do
#   lab_open PREFIX                makes the folder everything goes into; traps signals and the exit, see lab_remove
#   lab_disk SIZE_MB [plain]       the slow disk (or none); LAB_DISK says which: model, preload, plain
#   lab_model fast|slow            suspends or resumes the slow disk's delays
#   lab_build                      builds the extension and stages it in the folder: the system's PostgreSQL stays as it is
#   lab_init NAME; lab_clone NAME NEW          a new cluster; a copy of a stopped one
#   lab_start NAME [-m LIMIT_MB] [SETTING=VALUE...]; lab_stop NAME
#   lab_flash NAME SIZE            LAB_FLASH: the settings that load the cache with a flash file of that size
#   lab_extension NAME DB          its views and functions; lab_wait_active NAME DB: until the cache takes part
#   lab_psql NAME ARG...; lab_sql NAME DB SQL  (a value, unaligned)
#   lab_load NAME DB SCALE         a pgbench database, vacuumed and checkpointed
#   lab_drop_cache NAME            the kernel forgets the cluster's files
#   lab_warm NAME DB MAX_S STEP COMMAND...     repeats a load until three repetitions have raised the hit ratio by less than
#                                  STEP tenths of a point and filled flash by less than a point, at most MAX_S seconds;
#                                  one line after each repetition
#   lab_latency PREFIX             transactions, average and 95th percentile in ms, from pgbench's logs
#   lab_run COMMAND...             a long step that a signal ends at once
#   lab_remove                     stops, unmounts and removes everything; the traps do it too
#
# Servers listen on a unix socket in the folder only, and run as fc_as_postgres decides. Nothing outside the
# folder changes, the mounts, loop device and memory group that lab_close takes away again aside.
# Bash 5, `set -euo pipefail`.

LAB_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=SCRIPTDIR/../tools/packages.sh disable=SC1091
. "$LAB_ROOT/tools/packages.sh"

LAB_SPINDLES=4
LAB_READ_US=4000
LAB_WRITE_US=4000
LAB_MB_PER_S=200

LAB_DIR=''
LAB_DISK=''
LAB_FILES='' # where the clusters are
LAB_KEEP=no
LAB_JOB=''
LAB_LIMIT='' # what the last lab_start with -m got: "300 MB (cgroup v1)", or "none"
LAB_FLASH=()
LAB_FLASH_PLACE='' # a folder on the flash device to be used; empty: beside everything else
LAB_FLASH_DIR=''   # made there
LAB_SETTINGS=() # of every server, beside those that lab_start is given; they win
declare -A LAB_SERVER=() LAB_PORT=()
PATH=$PATH:/usr/sbin:/sbin # losetup and friends are not in everybody's path on Debian

lab_major() {
  LAB_MAJOR=$1
  LAB_BIN=/usr/lib/postgresql/$1/bin
}
lab_major "${FC_PG_MAJOR:-15}"

lab_die() {
  echo "error: $*" >&2
  exit 1
}

# Root, or a sudo that does not keep a script waiting for a password.
lab_has_root() {
  [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

# What the lab itself needs; without root nothing can be mounted, so FUSE is not asked for.
lab_packages() {
  local -a more=()
  ! lab_has_root || more=(fuse3 libfuse3-dev pkg-config e2fsprogs mount)
  fc_need_packages "postgresql-$LAB_MAJOR" "postgresql-server-dev-$LAB_MAJOR" make gcc libc6-dev "${more[@]}"
}

# A disk there is none; and what is written there is charged to the memory limit of the one who writes first.
lab_in_memory() { [[ $(stat -f -c %T "$1") =~ ^(tmpfs|ramfs)$ ]]; }

lab_place() {
  local place=${TMPDIR:-/tmp}
  ! lab_in_memory "$place" || place=/var/tmp
  echo "$place"
}

lab_check_place() {
  local free_mb
  [ -d "$1" ] || lab_die "$1 is not a folder"
  ! lab_in_memory "$1" || lab_die "$1 is in memory (tmpfs): choose a folder on a disk with --dir"
  free_mb=$(df --output=avail -m "$1" | tail -n 1 | tr -d ' ')
  [ "$free_mb" -ge "$2" ] || lab_die "$1 has $free_mb MB free and $2 MB are needed: choose another folder with --dir"
}

lab_open() {
  # a background step is not stopped by Ctrl-C itself: the shell is, at once, and lab_close stops the step;
  # SIGPIPE comes when the output goes to a pager that was left
  trap 'exit 141' PIPE
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  trap lab_close EXIT
  LAB_DIR=$(mktemp -d "$1.XXXXXX")
  LAB_DIR=$(cd "$LAB_DIR" && pwd -P) # no symbolic link on the way: the cache refuses one
  chmod 755 "$LAB_DIR"
  [ ${#LAB_DIR} -le 80 ] || lab_die "$LAB_DIR is too long for the name of a socket: choose a shorter folder"
  fc_as_postgres test -x "$LAB_DIR" || lab_die "the user postgres cannot reach $LAB_DIR: choose another folder"
  LAB_FLASH_DIR=$LAB_DIR/flash
  mkdir -m 700 "$LAB_DIR/socket"
  if [ -z "$LAB_FLASH_PLACE" ]; then
    mkdir -m 700 "$LAB_FLASH_DIR"
  else
    LAB_FLASH_DIR=$(mktemp -d "$LAB_FLASH_PLACE/pg_flashcache_flash.XXXXXX")
    LAB_FLASH_DIR=$(cd "$LAB_FLASH_DIR" && pwd -P)
  fi
  mkdir "$LAB_DIR/log"
  lab_give "$LAB_DIR/socket" "$LAB_FLASH_DIR"
}

# Hands a path to the user the server runs as.
lab_give() {
  if [ "$UID" -eq 0 ]; then
    chown postgres: "$@"
  elif [ ! -O "$1" ]; then
    fc_root chown "$UID:$(id -g)" "$@"
  fi
}

# The step runs in a process group of its own: `wait` returns when a signal comes, and lab_close can stop
# whatever the step has started.
lab_run() {
  local status=0
  set -m
  "$@" </dev/null &
  LAB_JOB=$!
  set +m
  wait "$LAB_JOB" || status=$?
  LAB_JOB=
  return "$status"
}

# The step that a signal interrupted first: it may be using what is taken away next.
lab_remove() {
  local name
  if [ -n "$LAB_JOB" ]; then
    kill -TERM -- "-$LAB_JOB" 2>/dev/null
    lab_await_exit "$LAB_JOB" 30 || kill -KILL -- "-$LAB_JOB" 2>/dev/null
    LAB_JOB=''
  fi
  lab_model fast 2>/dev/null
  for name in "${!LAB_SERVER[@]}"; do
    lab_stop "$name" "$([ "$LAB_KEEP" = yes ] && echo fast || echo immediate)"
  done
  if [ -d "$LAB_DIR/disk" ]; then fc_root bash "$LAB_ROOT/lab/slowdisk.sh" down "$LAB_DIR/disk"; fi
  if [ "$LAB_KEEP" = yes ]; then
    echo "kept: $LAB_DIR"
  else
    cd / || true
    rm -rf --one-file-system "$LAB_FLASH_DIR" "$LAB_DIR" 2>/dev/null || fc_root rm -rf --one-file-system "$LAB_FLASH_DIR" "$LAB_DIR"
  fi
  LAB_DIR=''
  LAB_DISK=''
}

lab_close() {
  local status=$?
  trap '' INT TERM HUP PIPE # a second Ctrl-C must not leave a mount behind
  trap - EXIT
  set +e
  [ -z "$LAB_DIR" ] || lab_remove
  exit "$status"
}

# --- the slow disk ---------------------------------------------------------------------------------------

lab_disk() {
  local size_mb=$1 rc=0
  LAB_DISK=plain
  LAB_FILES=$LAB_DIR/files
  if [ "${2-}" != plain ]; then
    LAB_DISK=preload
    if lab_has_root; then
      fc_root bash "$LAB_ROOT/lab/slowdisk.sh" up "$LAB_DIR/disk" "$size_mb" \
        "$LAB_SPINDLES" "$LAB_READ_US" "$LAB_WRITE_US" "$LAB_MB_PER_S" >"$LAB_DIR/log/disk" || rc=$?
      case $rc in
        0) LAB_DISK=model LAB_FILES=$LAB_DIR/disk/mnt ;;
        3) ;; # it said why
        *) lab_die "the slow disk could not be set up" ;;
      esac
    fi
  fi
  if [ "$LAB_DISK" = preload ]; then
    cc -O2 -shared -fPIC -o "$LAB_DIR/slowread.so" "$LAB_ROOT/lab/slowread.c" -ldl
    truncate -s 4096 "$LAB_DIR/slowread.control"
    chmod 666 "$LAB_DIR/slowread.control"
  fi
  mkdir -p "$LAB_FILES"
  lab_give "$LAB_FILES"
  lab_model fast
}

lab_disk_words() {
  case $LAB_DISK in
    model) echo "$LAB_SPINDLES spindles x $((LAB_READ_US / 1000)) ms, $LAB_MB_PER_S MB/s each: an ext4 file system over FUSE" ;;
    preload) echo "$LAB_SPINDLES spindles x $((LAB_READ_US / 1000)) ms, by delaying pread(): a fallback, nothing can be mounted here" ;;
    plain) echo "the machine's own disk, not slowed down" ;;
  esac
}

lab_model() {
  case $LAB_DISK in
    model) fc_root bash "$LAB_ROOT/lab/slowdisk.sh" "$1" "$LAB_DIR/disk" ;;
    preload) printf '%d' "$([ "$1" = slow ] && echo 1 || echo 0)" |
      dd of="$LAB_DIR/slowread.control" bs=1 count=1 conv=notrunc status=none ;;
  esac
}

# Reads that reached the slow disk so far (on a plain disk there is nothing to ask: 0).
lab_disk_reads() {
  case $LAB_DISK in
    model) bash "$LAB_ROOT/lab/slowdisk.sh" reads "$LAB_DIR/disk" ;;
    preload) od -An -t u8 -j 8 -N 8 "$LAB_DIR/slowread.control" | tr -d ' ' ;;
    plain) echo 0 ;;
  esac
}

# --- the extension ---------------------------------------------------------------------------------------

# A copy is built, so that nothing of another user or compiler is left in the source tree, and staged with
# DESTDIR. CREATE EXTENSION looks into the system's folder only (until PostgreSQL 18), so the extension's own
# script is made to name the staged library and run by psql.
lab_build() {
  local make_log=$LAB_DIR/log/make scripts
  [ -f "$LAB_ROOT/Makefile" ] || { echo "there is no Makefile in $LAB_ROOT" >&2; return 1; }
  mkdir -p "$LAB_DIR/build" "$LAB_DIR/stage"
  tar -C "$LAB_ROOT" --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.bc' --exclude=./results \
    --exclude=./tmp_check --exclude=./build -cf - . | tar -C "$LAB_DIR/build" -xf - --no-same-owner
  if ! make -C "$LAB_DIR/build" PG_CONFIG="$LAB_BIN/pg_config" with_llvm=no install DESTDIR="$LAB_DIR/stage" >"$make_log" 2>&1; then
    cat "$make_log" >&2
    return 1
  fi
  scripts=$LAB_DIR/stage$("$LAB_BIN/pg_config" --sharedir)/extension
  sed -e '/^\\echo .*\\quit/d' -e "s#MODULE_PATHNAME#$(lab_stage_lib)/pg_flashcache#g" -e 's/@extschema@/public/g' \
    "$scripts"/pg_flashcache--1.0.sql >"$LAB_DIR/pg_flashcache.sql"
}

lab_stage_lib() { echo "$LAB_DIR/stage$("$LAB_BIN/pg_config" --pkglibdir)"; }

# Does the kernel, or the container, let processes use io_uring? (System call 425, io_uring_setup, without arguments.)
lab_has_io_uring() {
  perl -e 'syscall(425, 0, 0); exit($!{EPERM} || $!{ENOSYS} || $!{EACCES} ? 1 : 0)'
}

lab_flash() {
  LAB_FLASH=("dynamic_library_path='$(lab_stage_lib):\$libdir'" "shared_preload_libraries='pg_flashcache'"
    "pg_flashcache.file='$LAB_FLASH_DIR/$1'" "pg_flashcache.size='$2'")
  # Otherwise the cache would be off, as it could not turn away from a device that hangs.
  lab_has_io_uring || LAB_FLASH+=("pg_flashcache.io_timeout=0")
  # the fallback charges a page in the kernel's page cache like one on the disk: it must not be preferred then
  [ "$LAB_DISK" != preload ] || LAB_FLASH+=("pg_flashcache.os_cache_probe=off")
}

lab_extension() {
  lab_psql "$1" -d "$2" -q -v ON_ERROR_STOP=1 -f "$LAB_DIR/pg_flashcache.sql"
}

lab_wait_active() {
  local i state=
  for ((i = 0; i < 300; i++)); do
    state=$(lab_sql "$1" "$2" 'SELECT state FROM pg_stat_flashcache')
    case $state in
      active) return 0 ;;
      starting) sleep 0.1 ;;
      *) break ;;
    esac
  done
  echo "the cache did not start: $state, $(lab_sql "$1" "$2" 'SELECT reason FROM pg_stat_flashcache')" >&2
  grep -A3 flashcache "$LAB_DIR/log/$1" >&2 || true
  return 1
}

# --- clusters --------------------------------------------------------------------------------------------

lab_init() {
  fc_as_postgres "$LAB_BIN/initdb" -D "$LAB_FILES/$1" -U postgres --auth=trust --locale=C.UTF-8 --encoding=UTF8 --no-sync \
    >"$LAB_DIR/log/initdb" 2>&1 || { cat "$LAB_DIR/log/initdb" >&2; return 1; }
  echo "include 'lab.conf'" | fc_as_postgres tee -a "$LAB_FILES/$1/postgresql.conf" >/dev/null
}

lab_clone() {
  [ -z "${LAB_SERVER[$1]-}" ] || lab_die "stop $1 before it is copied"
  fc_as_postgres cp -a "$LAB_FILES/$1" "$LAB_FILES/$2"
}

# A page of a program is charged to the memory limit of whoever reads it first, and goes when memory is short there: then
# the server waits for its own code. So it is read before, outside.
lab_read_programs() {
  ldd "$LAB_BIN/postgres" | awk '$3 ~ /^\// { print $3 }' | xargs cat "$LAB_BIN/postgres" >/dev/null
}

# The defaults make runs repeatable: no autovacuum, checkpoint or bgwriter in the middle of one, no JIT.
lab_start() {
  local name=$1 limit='' port pid i setting # a setting that is named twice holds as it is named last
  shift
  if [ "${1-}" = -m ]; then
    limit=$2
    shift 2
  fi
  [ -z "${LAB_SERVER[$name]-}" ] || lab_die "$name is running"
  port=${LAB_PORT[$name]-$((5432 + ${#LAB_PORT[@]}))} # the name of the socket: there is no TCP
  LAB_PORT[$name]=$port
  {
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$LAB_DIR/socket'" "port = $port" \
      "max_wal_size = '4GB'" "checkpoint_timeout = '1h'" "wal_level = minimal" "max_wal_senders = 0" \
      "autovacuum = off" "jit = off" "max_connections = 60" "huge_pages = off" "logging_collector = off" \
      "max_parallel_workers_per_gather = 0"
    for setting in "$@" "${LAB_SETTINGS[@]}"; do echo "${setting%%=*} = ${setting#*=}"; done
  } | fc_as_postgres tee "$LAB_FILES/$name/lab.conf" >/dev/null
  LAB_LIMIT=none
  if [ -n "$limit" ] && lab_has_root; then
    LAB_LIMIT=$(fc_root bash "$LAB_ROOT/lab/cgroup.sh" make "$LAB_DIR/cgroup.$name" "$limit" 2>"$LAB_DIR/log/cgroup") || {
      cat "$LAB_DIR/log/cgroup" >&2
      LAB_LIMIT=none
    }
    lab_read_programs
  fi
  local -a preload=()
  if [ "$LAB_DISK" = preload ]; then
    preload=("LD_PRELOAD=$LAB_DIR/slowread.so" "SLOWREAD_CONTROL=$LAB_DIR/slowread.control"
      "SLOWREAD_DIR=$LAB_FILES/$name/base/" "SLOWREAD_SPINDLES=$LAB_SPINDLES" "SLOWREAD_READ_US=$LAB_READ_US"
      "SLOWREAD_MB_PER_S=$LAB_MB_PER_S")
  fi
  rm -f "$LAB_DIR/socket/$name.pid"
  (
    [ "$LAB_LIMIT" = none ] || fc_root bash "$LAB_ROOT/lab/cgroup.sh" enter "$LAB_DIR/cgroup.$name" "$BASHPID"
    # the process id is on record before the server is: there is no moment at which lab_close could miss it
    # shellcheck disable=SC2016
    fc_as_postgres env "${preload[@]}" sh -c 'echo $$ >"$1"; shift; exec "$@"' sh "$LAB_DIR/socket/$name.pid" \
      "$LAB_BIN/postgres" -D "$LAB_FILES/$name"
  ) >>"$LAB_DIR/log/$name" 2>&1 </dev/null &
  LAB_SERVER[$name]=$!
  pid=$!
  for ((i = 0; i < 600; i++)); do
    "$LAB_BIN/pg_isready" -q -h "$LAB_DIR/socket" -p "$port" -U postgres && return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 20 "$LAB_DIR/log/$name" >&2
  echo "the server did not start" >&2
  return 1
}

lab_stop() {
  local name=$1 mode=${2:-fast} job=${LAB_SERVER[$1]-} pid signal wait_s
  [ -n "$job" ] || return 0
  pid=$(cat "$LAB_DIR/socket/$name.pid" 2>/dev/null) || true
  [ -n "$pid" ] || { kill "$job" 2>/dev/null || true; }
  for signal in INT QUIT KILL; do
    [ "$signal" != INT ] || [ "$mode" = fast ] || continue
    wait_s=$([ "$signal" = INT ] && echo 60 || echo 10)
    [ -z "$pid" ] || kill -s "$signal" "$pid" 2>/dev/null || break
    lab_await_exit "$pid" "$wait_s" && break
  done
  lab_await_exit "$job" 10 || true
  unset "LAB_SERVER[$name]"
  if [ -d "$LAB_DIR/cgroup.$name" ]; then fc_root bash "$LAB_ROOT/lab/cgroup.sh" drop "$LAB_DIR/cgroup.$name" || true; fi
}

# Not by wait: a signal can take the shell out of it just when it has learned of an end, and it forgets that. As the first
# process of a namespace, whose children are also the processes that others left, it would then wait for ever.
lab_await_exit() {
  local i
  for ((i = 0; i < $2 * 20; i++)); do
    [ -n "$1" ] && [ -d "/proc/$1" ] || return 0
    sleep 0.05
  done
  return 1
}

lab_psql() {
  local name=$1
  shift
  "$LAB_BIN/psql" -X -h "$LAB_DIR/socket" -p "${LAB_PORT[$name]}" -U postgres "$@"
}

lab_sql() {
  lab_psql "$1" -d "$2" -Atq -F ' ' -v ON_ERROR_STOP=1 -c "$3"
}

lab_pgbench() {
  local name=$1
  shift
  "$LAB_BIN/pgbench" -h "$LAB_DIR/socket" -p "${LAB_PORT[$name]}" -U postgres "$@"
}

lab_load() {
  local name=$1 db=$2 scale=$3
  lab_sql "$name" postgres "CREATE DATABASE $db"
  lab_pgbench "$name" -i -q -s "$scale" "$db" >"$LAB_DIR/log/load" 2>&1 || { cat "$LAB_DIR/log/load" >&2; return 1; }
  lab_sql "$name" "$db" CHECKPOINT
}

# Page by page the kernel keeps what it likes; a clean file as a whole it forgets when asked. Works without root.
lab_drop_cache() {
  sync -f "$LAB_FILES"
  # shellcheck disable=SC2016
  fc_as_postgres find "$LAB_FILES/$1/base" "$LAB_FILES/$1/global" -type f -size +7k \
    -exec sh -c 'for f; do dd if="$f" iflag=nocache count=0 status=none || exit; done' sh {} +
}

# --- load and figures ------------------------------------------------------------------------------------

# At the disk's full speed the cache fills in a minute rather than in hours; the load is the one that is measured.
lab_warm() {
  local name=$1 db=$2 until=$((SECONDS + $3)) step=$4 hits misses used slots ratio hits0 misses0 filled
  # of the last three repetitions: growth is slow towards the end
  local -a ratios=(-1000 -1000 -1000) fills=(-1000 -1000 -1000)
  shift 4
  # With its delays suspended the disk may be as fast as flash.
  lab_set "$name" "$db" "SET pg_flashcache.pause_when_slow = off"
  read -r hits0 misses0 < <(lab_sql "$name" "$db" 'SELECT hits, misses FROM pg_stat_flashcache')
  while [ $SECONDS -lt $until ]; do
    lab_run "$@"
    read -r hits misses used slots < <(lab_sql "$name" "$db" 'SELECT hits, misses, used, slots FROM pg_stat_flashcache')
    ratio=$((1000 * (hits - hits0) / (hits - hits0 + misses - misses0 + 1))) filled=$((1000 * used / slots))
    hits0=$hits misses0=$misses
    echo "        $((filled / 10))% of the flash used, $((ratio / 10)).$((ratio % 10))% hits"
    # Until it is 80% full it takes everything: no plateau before that. Then the ratio alone would not do, as it falls
    # while the page cache answers for ever more of the pages.
    [ $((ratio - ratios[0])) -ge "$step" ] || [ $((filled - fills[0])) -ge 10 ] || [ "$filled" -lt 800 ] || break
    ratios=("${ratios[@]:1}" "$ratio") fills=("${fills[@]:1}" "$filled")
  done
  lab_set "$name" "$db" "RESET pg_flashcache.pause_when_slow"
}

# lab_set NAME DB CHANGE: a setting that a reload takes up.
lab_set() {
  lab_sql "$1" "$2" "ALTER SYSTEM $3" >/dev/null
  lab_sql "$1" "$2" "SELECT pg_reload_conf()" >/dev/null
}

lab_latency() {
  cat "$1".* | awk '{ print $3 }' | sort -n | awk '
    { t[NR] = $1; sum += $1 }
    END { if (NR) printf "%d %.3f %.3f\n", NR, sum / NR / 1000, t[int((NR * 95 + 99) / 100)] / 1000; else print "0 0 0" }'
}
