#!/usr/bin/env bash
# Sourced: places that only root can make, for test/tap/105_places.pl.
#
#   fc_root_places DIR USER    makes them below DIR for servers of USER, and exports FC_PLACES=DIR
#   fc_root_places_away DIR    takes them away again; harmless if there are none
#
#   DIR/small          a file system of 1 MB
#   DIR/foreign/flash  a file of root's in a folder of USER's, closed to USER; DIR/foreign/open one that is not
#   DIR/device         a symbolic link to a block device of 4 MB that USER may write (a loop device)
#   DIR/mounted        a symbolic link to a block device that is mounted
#
# Whatever cannot be made here (no root, no loop devices in a container) is left out, and the test says so.

fc_root_places() {
  local dir=$1 user=$2 device
  [ "$(id -u)" -eq 0 ] || return 0
  mkdir -p "$dir/foreign"
  chown "$user" "$dir" "$dir/foreign"
  : >"$dir/foreign/flash"
  chmod 600 "$dir/foreign/flash"
  : >"$dir/foreign/open"
  chmod 666 "$dir/foreign/open"

  mkdir -p "$dir/small"
  if mount -t tmpfs -o "size=1m,mode=0700,uid=$(id -u "$user")" tmpfs "$dir/small" 2>/dev/null; then
    touch "$dir/small/.is-small"
  fi
  truncate -s 4M "$dir/device.img"
  if device=$(losetup --find --show "$dir/device.img" 2>/dev/null); then
    echo "$device" >"$dir/device.name"
    chown "$user" "$device"
    ln -sfn "$device" "$dir/device"
  fi
  truncate -s 4M "$dir/mounted.img"
  if mkfs.ext4 -q "$dir/mounted.img" 2>/dev/null && device=$(losetup --find --show "$dir/mounted.img" 2>/dev/null); then
    echo "$device" >"$dir/mounted.name"
    mkdir -p "$dir/mountpoint"
    if mount "$device" "$dir/mountpoint" 2>/dev/null; then
      chown "$user" "$device"
      ln -sfn "$device" "$dir/mounted"
    fi
  fi
  export FC_PLACES=$dir
}

fc_root_places_away() {
  local dir=$1 name
  [ "$(id -u)" -eq 0 ] || return 0
  for name in mountpoint small; do
    mountpoint -q "$dir/$name" 2>/dev/null && umount "$dir/$name"
  done
  for name in device mounted; do
    [ -f "$dir/$name.name" ] || continue
    name=$(cat "$dir/$name.name")
    chown root "$name"
    losetup --detach "$name"
  done
  rm -rf "$dir"
}
