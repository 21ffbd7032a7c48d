#!/usr/bin/env bash
# Sourced by bench.sh: a PostgreSQL that this machine does not have.

# shellcheck source=SCRIPTDIR/../../tools/debian.sh disable=SC1091
. "$LAB_ROOT/tools/debian.sh"

BENCH_OUTSIDE='' # what is /tmp inside
BENCH_INSIDE=''  # the process

# Runs bench.sh again where there is a PostgreSQL LAB_MAJOR, and exits as it does; returns if that is this machine.
# bench_elsewhere DIR ARGUMENT...: DIR is the folder for temporary files.
bench_elsewhere() {
  local dir=$1 place=$LAB_ROOT/build/servers/$LAB_MAJOR-bench status=0
  local -a flash=()
  shift
  # lab_packages gets 15
  if [ "$LAB_MAJOR" -eq 15 ] || [ -x "$LAB_BIN/postgres" ]; then
    return 0
  fi
  [ -n "${fc_debian_suite[$LAB_MAJOR]:-}" ] ||
    lab_die "PostgreSQL $LAB_MAJOR is not installed, and no suite of Debian has it: install it first, from apt.postgresql.org for example"
  fc_debian_can "$LAB_MAJOR" >&2 || exit 3
  fc_debian_make "$LAB_MAJOR" "$place" binutils e2fsprogs fio fuse3 gcc libfuse3-dev liburing-dev make mount pkg-config procps
  [ -z "$LAB_FLASH_PLACE" ] || flash=(--flash /mnt)
  BENCH_OUTSIDE=$(mktemp -d "$dir/pg_flashcache_bench.XXXXXX")
  chmod 1777 "$BENCH_OUTSIDE"
  trap bench_leave EXIT
  # The loop device and the memory group belong to the machine, whatever namespace they were made in: bench.sh inside
  # takes them away, so it is asked to end and waited for.
  set -m
  FC_DEBIAN_MNT=$LAB_FLASH_PLACE fc_debian_run "$place" "$LAB_ROOT" "$(dirname "$BENCH_OUT")" "$BENCH_OUTSIDE" /usr/bin/env -i PATH=/usr/sbin:/usr/bin \
    BENCH_COMMIT="$(bench_commit)" BENCH_OUT_OUTSIDE="$BENCH_OUT" /project/bench/bench.sh --server "$LAB_MAJOR" --dir /tmp \
    --out "/project/build/$(basename "$BENCH_OUT")" "${flash[@]}" "$@" </dev/null &
  BENCH_INSIDE=$!
  set +m
  wait "$BENCH_INSIDE" || status=$?
  BENCH_INSIDE=''
  exit "$status"
}

bench_leave() {
  local status=$? note
  trap '' INT TERM HUP # a second Ctrl-C must not leave a loop device behind
  trap - EXIT
  set +e
  if [ -n "$BENCH_INSIDE" ]; then
    kill -TERM -- "-$BENCH_INSIDE" 2>/dev/null
    wait "$BENCH_INSIDE" 2>/dev/null
  fi
  # what a run that was killed has left: these notes are removed with what they name
  for note in "$BENCH_OUTSIDE"/*/disk/loop; do
    [ ! -s "$note" ] || losetup -d "$(cat "$note")"
  done
  for note in "$BENCH_OUTSIDE"/*/cgroup.*/cgroup; do
    [ ! -s "$note" ] || bash "$LAB_ROOT/lab/cgroup.sh" drop "$(dirname "$note")"
  done
  if [ "$LAB_KEEP" = yes ]; then
    echo "outside: $BENCH_OUTSIDE is /tmp"
  else
    rm -rf --one-file-system "$BENCH_OUTSIDE"
  fi
  exit "$status"
}
