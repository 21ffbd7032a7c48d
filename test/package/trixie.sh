#!/usr/bin/env bash
# Sourced by test.sh: Debian 13 in a folder, with dpkg and apt, for the package pgflash, whose libraries Debian 12 does not have.
#
#   fc_trixie_can          says why not, where it cannot be used
#   fc_trixie_make ROOT    makes ROOT/build/trixie, unless it is there
#
# What pyproject.toml names is installed in it, so apt installs pgflash without a network, if it needs nothing else. About 65 MB
# are downloaded, once; remove the folder for newer packages. The mirror is that of the machine's own apt.
#
# Expects tools/debian.sh.

fc_trixie_can() {
  if [ "$(id -u)" -ne 0 ] || ! unshare --mount --pid --ipc --net --fork --kill-child true 2>/dev/null; then
    echo "apt installs pgflash in a folder with Debian 13 (chroot): this takes root, and a machine that lets root mount"
    return 1
  fi
}

# Debian's names of what pyproject.toml says.
fc_trixie_libraries() {
  python3 -c 'import re, sys, tomllib
debian = dict(line.split(";")[0].split() for line in open(sys.argv[2]))
for wanted in tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"]:
    print(debian[re.match("[a-z0-9]+", wanted)[0]])' "$1/pyproject.toml" "$1/debian/py3dist-overrides"
}

fc_trixie_make() {
  local place=$1/build/trixie mirror wanted log=$1/build/trixie.log
  local -a libraries
  mapfile -t libraries < <(fc_trixie_libraries "$1")
  wanted=$(echo "${libraries[@]}" | cat - "${BASH_SOURCE[0]}" | sha256sum | cut -d ' ' -f 1)
  [ "$(cat "$place/made-from" 2>/dev/null)" != "$wanted" ] || return 0
  mirror=$(fc_debian_mirror)
  if [ -z "$mirror" ]; then
    echo "apt on this machine names no Debian mirror" >&2
    return 1
  fi
  echo "making a folder with Debian 13" >&2
  rm -rf "$place" "$place.new"
  if ! mmdebstrap --mode=root --variant=apt --include=man-db "${libraries[@]/#/--include=}" \
    trixie "$place.new" "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$log" 2>&1; then
    cat "$log" >&2
    echo "Debian 13 could not be had from $mirror" >&2
    return 1
  fi
  echo "$wanted" >"$place.new/made-from"
  mv "$place.new" "$place"
  rm "$log"
}
