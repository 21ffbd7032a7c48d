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
#   DIR/lab/mnt/cache  a folder of USER's on ext4 on a disk that a process of ours plays (pgflash/lab/storage.py)
#
# and a process that does what is written to DIR/ask, one word a time, and says in DIR/answer "done", or what is wrong (a line):
#
#   hang | release          the disk of DIR/lab stops to answer (its process is stopped), goes on
#   slow | fast             it takes 30 ms for a request, or as long as it takes
#   readonly | writable     DIR/drive
#   shrink | grow           the file below DIR/drive: to 1 MB, to 4 MB again
#   detach | attach         DIR/drive, from the file below it; detached when nobody has it open any more
#   error | mend            on DIR/journal, unmounted and mounted anew
#   away | back             DIR/journal, unmounted while it is in use (umount -l), and mounted again
#   freeze | thaw           DIR/journal: whoever writes to it stands in the kernel
#   stall | unstall         the process behind DIR/stalls/mnt (test/lib/hangfs.c), and behind the file of the block device
#                           DIR/stalls.device, is stopped, goes on
#   open                    somebody opens that block device while it stands still, and holds up all who open it or close it
#   lose                    the process behind DIR/stalls/lost is killed: whatever is asked of the files there fails
#   remount                 DIR/lab/mnt, unmounted and mounted anew: the kernel has nothing of it in memory
#   hugepages               the machine has as many huge pages as DIR/hugepages says; others who ask wait for `smallpages`
#   smallpages              as many as before
#   limit                   the process that DIR/limited names, and its children, may take 256 MB of memory (DIR/limits is there
#                           if that can be had)
#   unlimit                 as before; they must have ended but for itself
#   bind | unbind           the folder or file that the first line of DIR/bind names, at that of the second line
#
# Whatever cannot be made here (no root, no loop devices in a container) is left out, and the test says so.
#
# Any number of runs may have such places at the same time. What they share are the machine's numbers of loop devices and its
# huge pages. Who sets a loop device up holds an exclusive lock on /dev/loop-control meanwhile, as systemd and
# pgflash/lab/storage.py do; between detach and attach it is held, or somebody else would get the number. Who has asked for
# huge pages holds one on /dev/zero until `smallpages`.

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
  truncate -s 4M "$dir/device.img" "$dir/drive.img" "$dir/mounted.img"
  if device=$(fc_root_loop "$dir" device "$dir/device.img"); then
    fc_root_node "$device" "$dir/lent" "nobody:$(id -gn "$user")" 660
    fc_root_node "$device" "$dir/node" "$user:" 600
    fc_root_node "$device" "$dir/node2" "$user:" 600
    fc_root_lend "$device" "$user" "$dir/device"
  fi
  if device=$(fc_root_loop "$dir" drive "$dir/drive.img"); then
    fc_root_node "$device" "$dir/other" "$user:" 600
    fc_root_lend "$device" "$user" "$dir/drive"
  fi
  mkdir -p "$dir/mountpoint"
  if mkfs.ext4 -q "$dir/mounted.img" 2>/dev/null && device=$(fc_root_loop "$dir" mounted "$dir/mounted.img") &&
    mount "$device" "$dir/mountpoint" 2>/dev/null; then
    fc_root_lend "$device" "$user" "$dir/mounted"
  fi
  fc_root_thin "$dir" "$user"
  fc_root_journal "$dir" "$user"
  fc_root_lab "$dir" "$user"
  fc_root_stalls "$dir" "$user"
  fc_root_limits "$dir" "$user"
  mkfifo -m 600 "$dir/ask" "$dir/answer"
  chown "$user" "$dir/ask" "$dir/answer"
  fc_root_agent "$dir" "$user" >"$dir/agent.log" 2>&1 </dev/null &
  echo $! >"$dir/agent.pid"
  disown # or the shell would say that it was killed
  export FC_PLACES=$dir
}

# fc_root_loop DIR NAME FILE [OPTION]: prints the loop device that has it now, whose name is kept in DIR/NAME.name
fc_root_loop() {
  local device
  device=$(flock /dev/loop-control losetup --find --show "${@:4}" "$3" 2>/dev/null) || return
  echo "$device" | tee "$1/$2.name"
}

# The user may read and write the device, and finds it at LINK. An interrupted run may have left other rights.
fc_root_lend() {
  local device=$1 user=$2 link=$3
  chown "$user" "$device"
  chmod o= "$device"
  ln -sfn "$device" "$link"
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
  device=$(fc_root_loop "$dir" thin "$dir/tiny/img") || return 0
  fc_root_lend "$device" "$user" "$dir/thin"
}

fc_root_journal() {
  local dir=$1 user=$2 device
  mkdir -p "$dir/journal"
  truncate -s 16M "$dir/journal.img"
  mkfs.ext4 -q "$dir/journal.img" 2>/dev/null || return 0
  device=$(fc_root_loop "$dir" journal "$dir/journal.img") || return 0
  mount -o errors=remount-ro "$device" "$dir/journal" 2>/dev/null || return 0
  [ -w "/sys/fs/ext4/$(basename "$device")/trigger_fs_error" ] || return 0
  mkdir "$dir/journal/cache" || return 0
  chown "$user" "$dir/journal/cache"
}

fc_root_slowdisk() {
  PYTHONPATH=$(dirname "${BASH_SOURCE[0]}")/../.. python3 -B -m pgflash.lab.storage "$@"
}

fc_root_lab() {
  local dir=$1 user=$2
  mkdir -p "$dir/lab"
  if fc_root_slowdisk up "$dir/lab" 24 8 30000 30000 2000 >"$dir/lab.log" 2>&1; then
    fc_root_slowdisk fast "$dir/lab"
    mkdir "$dir/lab/mnt/cache"
    chown "$user" "$dir/lab/mnt/cache"
  fi
}

# A process that plays a file system, of the folder DIR/below at DIR/NAME; its number is in DIR/NAME.pid.
fc_root_hangfs() {
  local dir=$1 name=$2 i
  setsid "$dir/hangfs" "$dir/below" "$dir/$name" >>"$dir/log" 2>&1 </dev/null &
  echo $! >"$dir/$name.pid"
  disown
  for ((i = 0; i < 100; i++)); do
    ! mountpoint -q "$dir/$name" || return 0
    kill -0 "$(cat "$dir/$name.pid")" 2>/dev/null || return 1
    sleep 0.1
  done
}

fc_root_stalls() {
  local dir=$1/stalls user=$2 device
  local -a flags
  mkdir -p "$dir/below" "$dir/mnt" "$dir/lost"
  chown "$user" "$dir/below"
  read -ra flags < <(pkg-config --cflags --libs fuse3 2>/dev/null) || return 0
  cc -O2 -Wall -Wextra -o "$dir/hangfs" "$(dirname "${BASH_SOURCE[0]}")/hangfs.c" "${flags[@]}" 2>"$dir/log" || return 0
  truncate -s 4M "$dir/below/raw.img"
  fc_root_hangfs "$dir" mnt || return 0
  fc_root_hangfs "$dir" lost || return 0
  device=$(fc_root_loop "$1" stalls "$dir/mnt/raw.img" --direct-io=on) || return 0
  fc_root_lend "$device" "$user" "$1/stalls.device"
}

# Does the process stand in the kernel, in a call that has this word among its arguments or that nothing interrupts?
fc_root_stands() {
  local pid=$1 word=$2 i
  for ((i = 0; i < 100; i++)); do
    if grep -q " $word " "/proc/$pid/syscall" 2>/dev/null || { [ -z "$word" ] && grep -q '^State:.D' "/proc/$pid/status" 2>/dev/null; }; then
      return 0
    fi
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.1
  done
  return 1
}

# The size of the file below is asked for under the lock that is taken to open the device, and it has been written to, so that
# the kernel does not know the size: whoever opens the device then stands there with the lock of all who open it or close it.
fc_root_open() {
  local device=$1
  losetup --set-capacity "$device" &
  fc_root_stands $! 0x4c07 || return 3
  sh -c ': <"$1"' sh "$device" &
  fc_root_stands $! '' || return 3
}

# The folder of this control group for memory, version 1 or 2.
fc_root_group() {
  local group
  group=$(sed -nE 's/^[0-9]+:([a-z_,]+,)?memory(,[a-z_,]+)?://p' /proc/self/cgroup)
  if [ -n "$group" ] && [ -d "/sys/fs/cgroup/memory$group" ]; then
    echo "/sys/fs/cgroup/memory$group"
  else
    echo "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)"
  fi
}

fc_root_limits() {
  local dir=$1 user=$2 group
  if [ -w /proc/sys/vm/nr_hugepages ]; then
    : >"$dir/hugepages"
    chown "$user" "$dir/hugepages"
  fi
  # A process number is not enough: this may be a namespace.
  if group=$(mktemp -d "$(fc_root_group)/fc_test.XXXXXX" 2>/dev/null); then
    chmod 755 "$group"
    if [ -e "$group/memory.limit_in_bytes" ] || [ -e "$group/memory.max" ]; then
      echo "$group" >"$dir/limits"
      : >"$dir/limited"
      chown "$user" "$dir/limited"
    else
      rmdir "$group"
    fi
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

# A session or a device process that its server has left may still be about to end.
fc_root_unmount() {
  local i
  for ((i = 0; i < 300; i++)); do
    ! umount "$1" || return 0
    sleep 0.1
  done
  return 1
}

fc_root_do() {
  local dir=$1 user=$2 device name i
  case $3 in
    hang) kill -STOP "$(cat "$dir/lab/pid")" ;;
    release) kill -CONT "$(cat "$dir/lab/pid")" ;;
    stall) kill -STOP "$(cat "$dir/stalls/mnt.pid")" ;;
    unstall) kill -CONT "$(cat "$dir/stalls/mnt.pid")" ;;
    open) fc_root_open "$(cat "$dir/stalls.name")" ;;
    lose)
      kill -KILL "$(cat "$dir/stalls/lost.pid")"
      for ((i = 0; i < 100; i++)); do
        stat "$dir/stalls/lost/cache" >/dev/null 2>&1 || return 0
        sleep 0.1
      done
      return 1
      ;;
    slow) kill -USR2 "$(cat "$dir/lab/pid")" ;;
    fast) kill -USR1 "$(cat "$dir/lab/pid")" ;;
    readonly) blockdev --setro "$(cat "$dir/drive.name")" ;;
    writable) blockdev --setrw "$(cat "$dir/drive.name")" ;;
    bind) mount --bind "$(sed -n 1p "$dir/bind")" "$(sed -n 2p "$dir/bind")" ;;
    unbind) umount "$(sed -n 2p "$dir/bind")" ;;
    shrink) truncate -s 1M "$dir/drive.img" ;;
    grow) truncate -s 4M "$dir/drive.img" ;;
    detach)
      exec 8</dev/loop-control
      flock 8
      losetup --detach "$(cat "$dir/drive.name")"
      ;;
    attach)
      device=$(cat "$dir/drive.name")
      losetup "$device" "$dir/drive.img" && chown "$user" "$device"
      exec 8<&-
      ;;
    hugepages)
      # A lock that all namespaces see: /dev is the machine's in each.
      exec 9</dev/zero
      flock 9
      [ "$(cat /proc/sys/vm/nr_hugepages)" -eq 0 ] || return 3 # they are somebody's
      : >"$dir/hugepages.are"
      cat "$dir/hugepages" >/proc/sys/vm/nr_hugepages
      [ "$(cat /proc/sys/vm/nr_hugepages)" = "$(cat "$dir/hugepages")" ] || return 3
      ;;
    smallpages)
      [ ! -e "$dir/hugepages.are" ] || echo 0 >/proc/sys/vm/nr_hugepages
      rm -f "$dir/hugepages.are"
      exec 9<&-
      ;;
    limit)
      name=$(cat "$dir/limits")
      if [ -e "$name/memory.max" ]; then echo 256M >"$name/memory.max"; else echo 256M >"$name/memory.limit_in_bytes"; fi
      cat "$dir/limited" >"$name/cgroup.procs"
      ;;
    unlimit) cat "$dir/limited" >"$(dirname "$(cat "$dir/limits")")/cgroup.procs" ;;
    freeze) fsfreeze -f "$dir/journal" ;;
    thaw) fsfreeze -u "$dir/journal" ;;
    remount)
      device=$(findmnt -no SOURCE "$dir/lab/mnt")
      fc_root_unmount "$dir/lab/mnt" || return 1
      mount -o noatime "$device" "$dir/lab/mnt"
      ;;
    error)
      name=$(basename "$(cat "$dir/journal.name")")
      echo "a test" >"/sys/fs/ext4/$name/trigger_fs_error"
      ;;
    mend)
      device=$(cat "$dir/journal.name")
      fc_root_unmount "$dir/journal" || return 1
      # A mount namespace that was made meanwhile has a copy of the mount.
      e2fsck -fy "$device" || [ $? -eq 1 ] || return 3
      mount -o errors=remount-ro "$device" "$dir/journal"
      ;;
    away) umount -l "$dir/journal" ;;
    back) mount -o errors=remount-ro "$(cat "$dir/journal.name")" "$dir/journal" ;;
    *) return 1 ;;
  esac
}

fc_root_places_release() {
  fsfreeze -u "$1/journal" 2>/dev/null || true
  [ ! -s "$1/lab/pid" ] || kill -CONT "$(cat "$1/lab/pid")" 2>/dev/null || true
  [ ! -s "$1/stalls/mnt.pid" ] || kill -CONT "$(cat "$1/stalls/mnt.pid")" 2>/dev/null || true
}

fc_root_places_away() {
  local dir=$1 name
  [ "$(id -u)" -eq 0 ] || return 0
  # of a test that was interrupted; the agent has the lock
  [ ! -e "$dir/hugepages.are" ] || echo 0 >/proc/sys/vm/nr_hugepages
  # waiting for somebody to open the pipe it would put off any other signal
  [ ! -f "$dir/agent.pid" ] || kill -KILL "$(cat "$dir/agent.pid")" 2>/dev/null || true
  fc_root_places_release "$dir"
  if [ -s "$dir/lab/pid" ]; then
    fc_root_slowdisk down "$dir/lab" || true
  fi
  for name in mountpoint small twin readonly journal; do
    ! mountpoint -q "$dir/$name" 2>/dev/null || umount "$dir/$name" || true
  done
  for name in device drive mounted thin journal stalls; do
    [ -f "$dir/$name.name" ] || continue
    name=$(cat "$dir/$name.name")
    # A test that broke off between detach and attach has left the number to others.
    [[ $(losetup --noheadings --output BACK-FILE "$name" 2>/dev/null) == "$dir"/* ]] || continue
    chown root "$name"
    # or the next one to get this device could not write to it
    blockdev --setrw "$name" 2>/dev/null || true
    losetup --detach "$name" 2>/dev/null || true
  done
  for name in mnt lost; do
    # one whose process has gone is no mount point to mountpoint
    [ ! -f "$dir/stalls/$name.pid" ] || umount "$dir/stalls/$name" 2>/dev/null || umount -l "$dir/stalls/$name" 2>/dev/null || true
  done
  ! mountpoint -q "$dir/tiny" 2>/dev/null || umount "$dir/tiny" || true
  # of a test that was interrupted
  [ ! -f "$dir/bind" ] || umount "$(sed -n 2p "$dir/bind")" 2>/dev/null || true
  [ ! -s "$dir/limits" ] || rmdir "$(cat "$dir/limits")" || true
  rm -rf --one-file-system "$dir"
}
