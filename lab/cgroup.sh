#!/usr/bin/env bash
# A memory limit around a PostgreSQL server, so that the kernel's page cache does not hide the disk.
#
#   cgroup.sh make DIR LIMIT_MB     makes the group (cgroup v2, Debian 12's default, or v1); DIR keeps a note of it
#   cgroup.sh enter DIR PID         moves a process into it; what it starts from then on is counted too
#   cgroup.sh peak DIR              the most memory the group has held, in MB
#   cgroup.sh drop DIR              removes the group, once its processes have ended; may be repeated
#
# Both versions charge page cache to the process that read the page first: a limit of shared_buffers plus a
# little is what leaves a server no page cache worth the name. Swap is denied to the group, or shared_buffers
# would go there.
# Exit status 3: this machine offers no memory limit (no root, a container without its own cgroup tree, the
# controller disabled at boot); stderr says which. Nothing has been changed then.
set -euo pipefail

usage() {
  sed -n '4,7s/^# \{0,3\}//p' "$0" >&2
  exit 2
}

cannot() {
  echo "cgroup: no memory limit: $*" >&2
  exit 3
}

# Mount point of the v2 tree, where it has the memory controller.
v2_root() {
  local at
  while read -r at; do
    if grep -qw memory "$at/cgroup.controllers" 2>/dev/null; then
      echo "$at"
      return
    fi
  done < <(awk '$3 == "cgroup2" { print $2 }' /proc/self/mounts)
}

# Mount point of the v1 memory hierarchy.
v1_root() {
  awk '$3 == "cgroup" && ("," $4 ",") ~ /,memory,/ { print $2; exit }' /proc/self/mounts
}

make_group() {
  local dir=$1 bytes=$(($2 * 1024 * 1024)) root version limit group
  [ "$(id -u)" -eq 0 ] || cannot "needs root"
  drop_group "$dir"
  root=$(v2_root)
  version=2 limit=memory.max
  if [ -z "$root" ]; then
    root=$(v1_root)
    version=1 limit=memory.limit_in_bytes
  fi
  [ -n "$root" ] || cannot "the kernel has no memory controller, or none is mounted here"
  mkdir -p "$dir"
  if [ "$version" -eq 2 ] && ! grep -qw memory "$root/cgroup.subtree_control"; then
    # systemd has switched it on already; elsewhere it is ours to switch on, and `drop` switches it off again
    { echo +memory >"$root/cgroup.subtree_control"; } 2>/dev/null ||
      cannot "$root does not let its memory controller be used (a container?)"
    echo "$root" >"$dir/cgroup.switched_on"
  fi
  group=$(mktemp -u "$root/pg_flashcache_lab.XXXXXXXX") # process ids repeat: the caller may be in a namespace
  # the note comes first: an interrupted `make` then leaves nothing that `drop` would not find
  echo "$group" >"$dir/cgroup"
  if ! mkdir "$group" 2>/dev/null || ! { echo "$bytes" >"$group/$limit"; } 2>/dev/null; then
    drop_group "$dir"
    cannot "$root is not writable (a container?)"
  fi
  if [ "$version" -eq 2 ]; then
    [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
  else
    [ ! -e "$group/memory.swappiness" ] || echo 0 >"$group/memory.swappiness"
  fi
  echo "$2 MB (cgroup v$version)"
}

peak() {
  local group file
  group=$(cat "$1/cgroup")
  for file in memory.peak memory.max_usage_in_bytes; do # v2 has its own only since Linux 5.19
    [ ! -e "$group/$file" ] || awk '{ printf "%d\n", $1 / 1048576 }' "$group/$file"
  done
}

drop_group() {
  local dir=$1 group root i
  if [ -s "$dir/cgroup" ]; then
    group=$(cat "$dir/cgroup")
    # the kernel counts a process for a moment after it has been waited for
    for ((i = 0; i < 100; i++)); do
      [ -d "$group" ] || break
      ! rmdir "$group" 2>/dev/null || break
      sleep 0.05
    done
    [ ! -d "$group" ] || { echo "cgroup: $group still holds processes" >&2; return 1; }
    rm -f "$dir/cgroup"
  fi
  if [ -s "$dir/cgroup.switched_on" ]; then
    root=$(cat "$dir/cgroup.switched_on")
    { echo -memory >"$root/cgroup.subtree_control"; } 2>/dev/null || true
    rm -f "$dir/cgroup.switched_on"
  fi
}

verb=${1-}
[ $# -eq 0 ] || shift
case $verb in
  make) [ $# -eq 2 ] || usage; make_group "$@" ;;
  enter) [ $# -eq 2 ] || usage; echo "$2" >"$(cat "$1/cgroup")/cgroup.procs" ;;
  peak) [ $# -eq 1 ] || usage; peak "$1" ;;
  drop) [ $# -eq 1 ] || usage; drop_group "$1" ;;
  *) usage ;;
esac
