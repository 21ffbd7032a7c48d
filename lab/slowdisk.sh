#!/usr/bin/env bash
# A slow disk (or a modelled flash device) as a mounted ext4 file system.
#
#   slowdisk.sh check                   says what is missing for it on this machine, if anything
#   slowdisk.sh up   DIR SIZE_MB SPINDLES READ_SEEK_US WRITE_SEEK_US MB_PER_S [BACKING_FILE]
#   slowdisk.sh down DIR
#   slowdisk.sh fast DIR | slow DIR     suspend, resume the model while mounted
#   slowdisk.sh reads DIR               read requests the disk has answered since `up`
#
# `up` leaves DIR/mnt mounted, or nothing at all: it undoes what it did when a step fails or a signal comes.
# `down` undoes everything `up` did in DIR, also after a half-finished `up`, and may be repeated.
# SLOWDISK_OFFSET in the environment of `up`: the file system begins at that byte of the device, a multiple of 512, as in
# a partition (63 x 512 is the misaligned one of old partition tables).
# Exit status 3: this machine cannot have it (no root, no FUSE, no loop devices); stderr says which.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # losetup, mkfs.ext4: not in everybody's path on Debian
here=$(cd "$(dirname "$0")" && pwd)

usage() {
  sed -n '4,8s/^# \{0,3\}//p' "$0" >&2
  exit 2
}

cannot() {
  echo "slowdisk: $*" >&2
  exit 3
}

check() {
  local tool
  [ "$(id -u)" -eq 0 ] || cannot "needs root to mount"
  for tool in cc pkg-config losetup mkfs.ext4 blkid mountpoint fusermount3 setsid; do
    command -v "$tool" >/dev/null || cannot "needs $tool (packages fuse3, libfuse3-dev, gcc, pkg-config, e2fsprogs, mount)"
  done
  pkg-config --exists 'fuse3 >= 3.12' || cannot "needs libfuse3-dev 3.12 or newer"
  # where nothing has used them since boot, their device files may not be there yet
  [ -c /dev/fuse ] || modprobe fuse 2>/dev/null || true
  [ -c /dev/loop-control ] || modprobe loop 2>/dev/null || true
  [ -c /dev/fuse ] || cannot "this kernel or container offers no /dev/fuse"
  [ -c /dev/loop-control ] || cannot "this kernel or container offers no loop devices"
}

# Waits until a condition holds, at most 30 s (a machine may be busy). The steps below are done within milliseconds; polling is
# all that mount(8) and losetup(8) offer.
await() {
  local i
  for ((i = 0; i < 600; i++)); do
    "$@" && return 0
    sleep 0.05
  done
  return 1
}

daemon_gone() { ! kill -0 "$1" 2>/dev/null; }
disk_or_daemon_gone() { [ -e "$1/fuse/disk" ] || daemon_gone "$(cat "$1/pid")"; }

# Loop devices over our file, whoever made them and whether or not the note of it was written.
loops_of() { losetup --list --noheadings --output NAME --associated "$1/fuse/disk" 2>/dev/null || true; }
no_loops() { [ -z "$(loops_of "$1")" ]; }

down() {
  local dir=$1 loop pid
  [ -d "$dir" ] || return 0
  dir=$(cd "$dir" && pwd -P)
  if mountpoint -q "$dir/mnt"; then
    # "busy" can outlast the last process by a moment; a lazy unmount is better than a disk left behind
    await umount "$dir/mnt" 2>/dev/null || umount -l "$dir/mnt"
  fi
  for loop in $(loops_of "$dir"); do
    restore_queue "$loop" "$dir/queue"
    losetup -d "$loop" || true
  done
  await no_loops "$dir" || echo "slowdisk: $(loops_of "$dir") still in use" >&2
  if mountpoint -q "$dir/fuse" || grep -q " $dir/fuse fuse" /proc/self/mounts; then
    await fusermount3 -u "$dir/fuse" 2>/dev/null || umount -l "$dir/fuse"
  fi
  if [ -s "$dir/pid" ]; then
    pid=$(cat "$dir/pid")
    # unmounting ends the daemon; the signal is for one that had not mounted yet
    if [ "$(readlink "/proc/$pid/exe")" = "$dir/slowdisk" ]; then
      kill "$pid" 2>/dev/null || true
      await daemon_gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
    fi
  fi
  rm -f "$dir/loop" "$dir/pid" "$dir/queue"
}

# What the kernel takes our device for. A loop device is an SSD to it, and of an SSD it holds the writes back as soon as reads take
# 2 ms (writeback throttling, wbt_lat_usec). A disk's reads always do: its writes would be let through one at a time.
queue_of() { echo "/sys/block/$(basename "$1")/queue"; }
put() { { echo "$1" >"$2"; } 2>/dev/null || true; } # an older kernel, or one without it: as it is

like_a_disk() {
  local queue
  queue=$(queue_of "$1")
  put 1 "$queue/rotational"
  # its own for such a device, 75 ms; where it does not throttle at all it goes on so
  [ "$(cat "$queue/wbt_lat_usec" 2>/dev/null || echo 0)" = 0 ] || put -1 "$queue/wbt_lat_usec"
}

# A loop device outlives what was attached to it, settings and all: they are noted in a file, and put back from there.
note_queue() {
  local queue name
  queue=$(queue_of "$1")
  for name in scheduler rotational wbt_lat_usec; do
    [ ! -r "$queue/$name" ] || echo "$name $(sed 's/.*\[\(.*\)\].*/\1/' "$queue/$name")"
  done >"$2"
}

restore_queue() {
  local queue name value
  queue=$(queue_of "$1")
  [ -s "$2" ] || return 0
  while read -r name value; do put "$value" "$queue/$name"; done <"$2"
}

up() {
  [ $# -ge 6 ] || usage
  check
  mkdir -p "$1"
  local size_mb=$2 spindles=$3 read_us=$4 write_us=$5 mbps=$6 backing offset=${SLOWDISK_OFFSET:-0}
  dir=$(cd "$1" && pwd -P) # not local: the trap reads it
  backing=${7:-$dir/backing.img}
  ! mountpoint -q "$dir/mnt" || { echo "slowdisk: $dir/mnt is mounted already" >&2; exit 1; }
  trap 'exit 130' INT
  trap 'exit 143' TERM
  trap 'exit 129' HUP
  trap 'down "$dir"' EXIT
  mkdir -p "$dir/fuse" "$dir/mnt"
  local -a fuse_flags
  read -ra fuse_flags < <(pkg-config --cflags --libs fuse3)
  [ "$dir/slowdisk" -nt "$here/slowdisk.c" ] || cc -O2 -Wall -o "$dir/slowdisk" "$here/slowdisk.c" "${fuse_flags[@]}" -lpthread
  [ -e "$backing" ] || fallocate -l "${size_mb}M" "$backing" || { rm -f "$backing"; exit 1; }
  # a fresh file system is made at full speed, before the model is put over it
  if ! blkid -p --offset "$offset" "$backing" >/dev/null 2>&1; then
    local -a room=()
    [ "$offset" -eq 0 ] || room=("$(((size_mb * 1024 - (offset + 1023) / 1024) / 4 * 4))k")
    mkfs.ext4 -q -F -b 4096 -E "offset=$offset,nodiscard,lazy_itable_init=0,lazy_journal_init=0" -m 0 "$backing" "${room[@]}"
  fi
  setsid "$dir/slowdisk" "$backing" "$dir/fuse" "$spindles" "$read_us" "$write_us" "$mbps" \
    >"$dir/slowdisk.log" 2>&1 </dev/null &
  echo $! >"$dir/pid"
  if ! await disk_or_daemon_gone "$dir" || [ ! -e "$dir/fuse/disk" ]; then
    cat "$dir/slowdisk.log" >&2
    cannot "FUSE could not mount"
  fi
  # another process may take the free loop device between the question and the answer
  local i loop=
  for ((i = 0; i < 5 && ${#loop} == 0; i++)); do
    loop=$(losetup -f --show --direct-io=on --offset "$offset" "$dir/fuse/disk" 2>"$dir/losetup.log") || sleep 0.1
  done
  [ -n "$loop" ] || { cat "$dir/losetup.log" >&2; cannot "no loop device could be set up"; }
  echo "$loop" >"$dir/loop"
  note_queue "$loop" "$dir/queue"
  [ "$read_us" -lt 1000 ] || like_a_disk "$loop"
  mount -o noatime "$loop" "$dir/mnt" || cannot "$loop could not be mounted"
  reads "$dir" >"$dir/reads.base"
  trap - EXIT
  echo "$dir/mnt on $loop: $spindles spindles x $read_us us"
}

reads() {
  local base=0
  [ ! -s "$1/reads.base" ] || base=$(cat "$1/reads.base")
  awk -v base="$base" '{ print $1 - base }' "/sys/block/$(basename "$(cat "$1/loop")")/stat"
}

verb=${1-}
[ $# -eq 0 ] || shift
case $verb in
  check) check ;;
  up) up "$@" ;;
  down) [ $# -eq 1 ] || usage; down "$1" ;;
  fast) [ $# -eq 1 ] || usage; kill -USR1 "$(cat "$1/pid")" ;;
  slow) [ $# -eq 1 ] || usage; kill -USR2 "$(cat "$1/pid")" ;;
  reads) [ $# -eq 1 ] || usage; reads "$1" ;;
  *) usage ;;
esac
