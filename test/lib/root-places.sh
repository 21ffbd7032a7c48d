#!/usr/bin/env bash
# Sourced: places that only root can make, and faults that only root can cause, for test/tap/105_places.pl and
# test/tap/121_real_faults.pl.
#
#   fc_root_places DIR USER    makes them below DIR for servers of USER, and exports FC_PLACES=DIR
#   fc_root_places_release DIR lets a disk go on that a test has left hanging
#   fc_root_places_away DIR    takes them away again; harmless if there are none
#
#   DIR/small          a file system of 1 MB
#   DIR/foreign/flash  a file of root's in a folder of USER's, closed to USER; DIR/foreign/open one that is not
#   DIR/device         a symbolic link to a block device of 4 MB that USER may write (a loop device)
#   DIR/lent           another node of that device, which belongs to somebody else and which USER's group may write to
#   DIR/node, node2    two more, which belong to USER; DIR/other one of DIR/drive
#   DIR/mounted        a symbolic link to a block device that is mounted
#   DIR/sticky         a folder that all may write to, with a file, a folder and a link to DIR/foreign in it that are nobody's
#   DIR/nobody/ours    a folder of USER's in one of nobody's
#   DIR/strangers      a folder of root's that a group which USER is not in may write to
#   DIR/twin           the same folder as DIR/foreign, mounted there
#   DIR/readonly       a file system that cannot be written to; it has a file of USER's, flash
#   DIR/drive          another one
#   DIR/thin           a symbolic link to a block device of 4 MB that has room for 1 MB only
#   DIR/journal/cache  a folder of USER's on ext4, which becomes read-only at the first error
#   DIR/lab/mnt/cache  a folder of USER's on ext4 on a disk that a process of ours plays (lab/slowdisk.sh)
#
# and a process that does what is written to DIR/ask, one word a time, and says in DIR/answer "done", or what is wrong (a line):
#
#   hang | release          the disk of DIR/lab stops to answer (its process is stopped), goes on
#   slow | fast             it takes 30 ms for a request, or as long as it takes
#   readonly | writable     DIR/drive
#   shrink | grow           the file below DIR/drive: to 1 MB, to 4 MB again
#   detach | attach         DIR/drive, from the file below it; detached when nobody has it open any more
#   error | mend            on DIR/journal, unmounted and mounted anew
#   freeze | thaw           DIR/journal: whoever writes to it stands in the kernel
#   remount                 DIR/lab/mnt, unmounted and mounted anew: the kernel has nothing of it in memory
#   bind | unbind           the folder or file that the first line of DIR/bind names, at that of the second line
#
# Whatever cannot be made here (no root, no loop devices in a container) is left out, and the test says so.

fc_root_places() {
  local dir=$1 user=$2 device name
  [ "$(id -u)" -eq 0 ] || return 0
  mkdir -p "$dir/foreign"
  chown "$user" "$dir" "$dir/foreign"
  : >"$dir/foreign/flash"
  chmod 600 "$dir/foreign/flash"
  : >"$dir/foreign/open"
  chmod 666 "$dir/foreign/open"

  mkdir -p "$dir/sticky/folder" "$dir/nobody/ours" "$dir/strangers" "$dir/twin" "$dir/readonly"
  : >"$dir/sticky/flash"
  chmod 600 "$dir/sticky/flash"
  ln -s "$dir/foreign" "$dir/sticky/link"
  chmod 1777 "$dir/sticky"
  chmod 775 "$dir/strangers"
  chmod 777 "$dir/sticky/folder"
  chown -h nobody "$dir/sticky/flash" "$dir/sticky/folder" "$dir/sticky/link" "$dir/nobody"
  chown "$user" "$dir/nobody/ours"
  chgrp daemon "$dir/strangers"
  if mount --bind "$dir/foreign" "$dir/twin" 2>/dev/null; then
    : >"$dir/twins"
  fi
  if mount -t tmpfs tmpfs "$dir/readonly" 2>/dev/null; then
    : >"$dir/readonly/flash"
    chmod 600 "$dir/readonly/flash"
    chown "$user" "$dir/readonly/flash" "$dir/readonly"
    mount -o remount,ro "$dir/readonly"
  fi

  mkdir -p "$dir/small"
  if mount -t tmpfs -o "size=1m,mode=0700,uid=$(id -u "$user")" tmpfs "$dir/small" 2>/dev/null; then
    touch "$dir/small/.is-small"
  fi
  for name in device drive; do
    truncate -s 4M "$dir/$name.img"
    if device=$(losetup --find --show "$dir/$name.img" 2>/dev/null); then
      echo "$device" >"$dir/$name.name"
      chown "$user" "$device"
      chmod o= "$device" # one that was interrupted may have left it otherwise
      ln -sfn "$device" "$dir/$name"
      if [ "$name" = drive ]; then
        fc_root_node "$device" "$dir/other" "$user:" 600
      else
        fc_root_node "$device" "$dir/lent" "nobody:$(id -gn "$user")" 660
        fc_root_node "$device" "$dir/node" "$user:" 600
        fc_root_node "$device" "$dir/node2" "$user:" 600
      fi
    fi
  done
  truncate -s 4M "$dir/mounted.img"
  if mkfs.ext4 -q "$dir/mounted.img" 2>/dev/null && device=$(losetup --find --show "$dir/mounted.img" 2>/dev/null); then
    echo "$device" >"$dir/mounted.name"
    mkdir -p "$dir/mountpoint"
    if mount "$device" "$dir/mountpoint" 2>/dev/null; then
      chown "$user" "$device"
      ln -sfn "$device" "$dir/mounted"
    fi
  fi
  fc_root_thin "$dir" "$user"
  fc_root_journal "$dir" "$user"
  fc_root_lab "$dir" "$user"
  mkfifo -m 600 "$dir/ask" "$dir/answer"
  chown "$user" "$dir/ask" "$dir/answer"
  fc_root_agent "$dir" "$user" >"$dir/agent.log" 2>&1 </dev/null &
  echo $! >"$dir/agent.pid"
  disown # or the shell would say that it was killed
  export FC_PLACES=$dir
}

# Another node of a device.
fc_root_node() {
  local device=$1 node=$2 owner=$3 mode=$4
  # shellcheck disable=SC2046
  mknod "$node" b $(stat -c '0x%t 0x%T' "$device") 2>/dev/null || return 0
  chown "$owner" "$node"
  chmod "$mode" "$node"
}

fc_root_thin() {
  local dir=$1 user=$2 device
  mkdir -p "$dir/tiny"
  mount -t tmpfs -o size=1m tmpfs "$dir/tiny" 2>/dev/null || return 0
  truncate -s 4M "$dir/tiny/img"
  device=$(losetup --find --show "$dir/tiny/img" 2>/dev/null) || return 0
  echo "$device" >"$dir/thin.name"
  chown "$user" "$device"
  ln -sfn "$device" "$dir/thin"
}

fc_root_journal() {
  local dir=$1 user=$2 device
  mkdir -p "$dir/journal"
  truncate -s 16M "$dir/journal.img"
  mkfs.ext4 -q "$dir/journal.img" 2>/dev/null || return 0
  device=$(losetup --find --show "$dir/journal.img" 2>/dev/null) || return 0
  echo "$device" >"$dir/journal.name"
  mount -o errors=remount-ro "$device" "$dir/journal" 2>/dev/null || return 0
  [ -w "/sys/fs/ext4/$(basename "$device")/trigger_fs_error" ] || return 0
  mkdir "$dir/journal/cache" || return 0
  chown "$user" "$dir/journal/cache"
}

fc_root_lab() {
  local dir=$1 user=$2 lab
  lab=$(dirname "${BASH_SOURCE[0]}")/../../lab/slowdisk.sh
  mkdir -p "$dir/lab"
  if "$lab" up "$dir/lab" 24 8 30000 30000 2000 >"$dir/lab.log" 2>&1; then
    "$lab" fast "$dir/lab"
    mkdir "$dir/lab/mnt/cache"
    chown "$user" "$dir/lab/mnt/cache"
  fi
}

# The process behind DIR/ask and DIR/answer; ends when it is killed.
fc_root_agent() {
  local dir=$1 user=$2 word said
  while read -r word <"$dir/ask"; do
    said="done"
    fc_root_do "$dir" "$user" "$word" || case $? in
      3) said="held elsewhere" ;;
      *) said="could not $word" ;;
    esac
    echo "$said" >"$dir/answer"
  done
}

fc_root_do() {
  local dir=$1 user=$2 device name i
  case $3 in
    hang) kill -STOP "$(cat "$dir/lab/pid")" ;;
    release) kill -CONT "$(cat "$dir/lab/pid")" ;;
    slow) kill -USR2 "$(cat "$dir/lab/pid")" ;;
    fast) kill -USR1 "$(cat "$dir/lab/pid")" ;;
    readonly) blockdev --setro "$(cat "$dir/drive.name")" ;;
    writable) blockdev --setrw "$(cat "$dir/drive.name")" ;;
    bind) mount --bind "$(sed -n 1p "$dir/bind")" "$(sed -n 2p "$dir/bind")" ;;
    unbind) umount "$(sed -n 2p "$dir/bind")" ;;
    shrink) truncate -s 1M "$dir/drive.img" ;;
    grow) truncate -s 4M "$dir/drive.img" ;;
    detach) losetup --detach "$(cat "$dir/drive.name")" ;;
    attach)
      device=$(cat "$dir/drive.name")
      losetup "$device" "$dir/drive.img" && chown "$user" "$device"
      ;;
    freeze) fsfreeze -f "$dir/journal" ;;
    thaw) fsfreeze -u "$dir/journal" ;;
    remount)
      device=$(findmnt -no SOURCE "$dir/lab/mnt")
      # A device process that its server has left may still be about to end.
      for ((i = 0; i < 300; i++)); do
        ! umount "$dir/lab/mnt" || break
        sleep 0.1
      done
      ! mountpoint -q "$dir/lab/mnt" || return 1
      mount -o noatime "$device" "$dir/lab/mnt"
      ;;
    error)
      name=$(basename "$(cat "$dir/journal.name")")
      echo "a test" >"/sys/fs/ext4/$name/trigger_fs_error"
      ;;
    mend)
      device=$(cat "$dir/journal.name")
      # The last session may still be about to end.
      for ((i = 0; i < 300; i++)); do
        ! umount "$dir/journal" || break
        sleep 0.1
      done
      ! mountpoint -q "$dir/journal" || return 1
      # A mount namespace that was made meanwhile has a copy of the mount.
      e2fsck -fy "$device" || [ $? -eq 1 ] || return 3
      mount -o errors=remount-ro "$device" "$dir/journal"
      ;;
    *) return 1 ;;
  esac
}

fc_root_places_release() {
  fsfreeze -u "$1/journal" 2>/dev/null || true
  [ ! -s "$1/lab/pid" ] || kill -CONT "$(cat "$1/lab/pid")" 2>/dev/null || true
}

fc_root_places_away() {
  local dir=$1 name
  [ "$(id -u)" -eq 0 ] || return 0
  # waiting for somebody to open the pipe it would put off any other signal
  [ ! -f "$dir/agent.pid" ] || kill -KILL "$(cat "$dir/agent.pid")" 2>/dev/null || true
  fc_root_places_release "$dir"
  if [ -s "$dir/lab/pid" ]; then
    "$(dirname "${BASH_SOURCE[0]}")/../../lab/slowdisk.sh" down "$dir/lab" || true
  fi
  for name in mountpoint small twin readonly journal; do
    ! mountpoint -q "$dir/$name" 2>/dev/null || umount "$dir/$name" || true
  done
  for name in device drive mounted thin journal; do
    [ -f "$dir/$name.name" ] || continue
    name=$(cat "$dir/$name.name")
    chown root "$name"
    # or the next one to get this device could not write to it
    blockdev --setrw "$name" 2>/dev/null || true
    losetup --detach "$name" 2>/dev/null || true
  done
  ! mountpoint -q "$dir/tiny" 2>/dev/null || umount "$dir/tiny" || true
  # of a test that was interrupted
  [ ! -f "$dir/bind" ] || umount "$(sed -n 2p "$dir/bind")" 2>/dev/null || true
  rm -rf --one-file-system "$dir"
}
