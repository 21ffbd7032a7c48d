#!/usr/bin/env bash
# Sourced by test.sh and bench/bench.sh: PostgreSQL of another Debian suite, complete in a folder, with whatever else they
# need. Needs root.
#
#   fc_debian_make MAJOR PLACE PACKAGE...   makes PLACE/root with these packages and the server's, unless it is there
#   fc_debian_run PLACE TREE BUILD TMP COMMAND...
#                 runs COMMAND as root inside PLACE/root: TREE is /project (read-only), BUILD is /project/build (TREE/build must
#                 be there), TMP is /tmp, and FC_DEBIAN_MNT in the environment, if set, is /mnt.
#                 In place of the shell that calls it, so call it in a subshell.
#
# The packages are unpacked, not installed: no maintainer script runs, so the few things that they would do are done here by
# hand. The machine's own packages and apt configuration are not changed. The mirror is that of the machine's own apt.
#
# COMMAND runs in namespaces of its own. The mounts are seen by nobody else, so nothing can be removed through one of
# them; and when COMMAND ends, all its processes, mounts and shared memory end with it, however it ended. The root
# is read-only, so every run finds it as it was made, and it can be kept: remove PLACE for newer packages.
#
# Expects tools/packages.sh.

# Which suite has which major, and the version that the tests have last been run with.
declare -A fc_debian_suite=([17]=trixie [18]=sid [19]=experimental)
declare -A fc_debian_seen=([17]=17.11-0+deb13u1 [18]=18.6-3 [19]=19~rc1-1)

# What any root needs beside the packages that are asked for.
fc_debian_base=(base-files base-passwd bash coreutils dash debianutils diffutils dpkg findutils grep gzip hostname libc-bin
  libc6-dev mawk mount passwd procps sed tar tzdata-legacy util-linux)

fc_debian_mirror() {
  local codename
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2016  # the names are apt's
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$codename" '$1 == release { print $2; exit }'
}

# A private apt configuration in APT for one suite, with binary and source packages: experimental lies on top of sid.
fc_debian_apt() {
  local major=$1 apt=$2 mirror suite
  local -a suites=("${fc_debian_suite[$major]}")
  mirror=$(fc_debian_mirror)
  if [ -z "$mirror" ]; then
    echo "PostgreSQL $major: apt on this machine names no Debian mirror" >&2
    return 1
  fi
  mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts}
  : >"$apt/status"
  : >"$apt/preferences"
  : >"$apt/sources.list"
  if [ "${suites[0]}" = experimental ]; then
    suites+=(sid)
    printf 'Package: src:postgresql-%s\nPin: release a=experimental\nPin-Priority: 990\n' "$major" >"$apt/preferences"
  fi
  for suite in "${suites[@]}"; do
    for type in deb deb-src; do
      echo "$type [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >>"$apt/sources.list"
    done
  done
  cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferences "$apt/preferences";
Dir::Etc::preferencesparts "$apt/parts";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
Debug::NoLocking "true";
END
}

# Can a root be used here? Says why not.
fc_debian_can() {
  if [ "$(id -u)" -ne 0 ]; then
    echo "PostgreSQL $1 runs in a folder of its own (chroot): run this as root"
    return 1
  fi
  if ! unshare --mount --pid --ipc --fork --kill-child --mount-proc true 2>/dev/null; then
    echo "PostgreSQL $1 runs in a folder of its own (chroot): this machine does not let root mount anything"
    return 1
  fi
}

fc_debian_make() {
  local major=$1 place=$2
  shift 2
  local suite=${fc_debian_suite[$major]} wanted log apt=$place/apt
  # A root that was made from another list of packages, or by another version of this script, is made again.
  wanted=$(echo "$major $*" | cat - "${BASH_SOURCE[0]}" | sha256sum | cut -d ' ' -f 1)
  if [ "$(cat "$place/root/made-from" 2>/dev/null)" = "$wanted" ]; then
    return 0
  fi
  echo "making a folder with PostgreSQL $major of Debian $suite" >&2
  mkdir -p "$place"
  log=$place/log
  fc_debian_apt "$major" "$apt" || return 1
  if ! apt-get -c "$apt/apt.conf" -qq update >"$log" 2>&1; then
    cat "$log" >&2
    echo "PostgreSQL $major: the package lists of Debian $suite could not be downloaded from $(fc_debian_mirror)" >&2
    return 1
  fi
  # The compiler of the just-in-time extension comes with the development package and is larger than all the rest; we
  # have no use for it. So of these two only the packages themselves are taken.
  if ! { apt-get -c "$apt/apt.conf" -qq -y --no-install-recommends --download-only install \
    "postgresql-$major" "${fc_debian_base[@]}" "$@" &&
    (cd "$apt/cache/archives" && apt-get -c "$apt/apt.conf" -qq download "postgresql-server-dev-$major" libpq-dev); } \
    >"$log" 2>&1; then
    cat "$log" >&2
    echo "PostgreSQL $major: postgresql-$major and what goes with it could not be had from Debian $suite at" \
      "$(fc_debian_mirror) (last seen there: postgresql-$major ${fc_debian_seen[$major]})" >&2
    return 1
  fi
  rm -rf "$place/root" "$place/root.new"
  if ! { fc_debian_unpack "$place/root.new" "$apt/cache/archives" && fc_debian_finish "$place/root.new" "$major"; } \
    >"$log" 2>&1; then
    cat "$log" >&2
    echo "PostgreSQL $major: the packages of Debian $suite could not be unpacked" >&2
    return 1
  fi
  echo "$wanted" >"$place/root.new/made-from"
  mv "$place/root.new" "$place/root"
  rm -rf "$apt"
}

# Unpacks the packages in FOLDER, two at a time; translations and manuals are left out.
fc_debian_unpack() {
  local root=$1 folder=$2 name
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64}
  for name in bin sbin lib lib64; do
    ln -s "usr/$name" "$root/$name"
  done
  # shellcheck disable=SC2016  # expanded by the inner shell
  find "$folder" -maxdepth 1 -name '*.deb' -print0 |
    xargs -0 -P 2 -n 1 bash -c 'set -o pipefail; dpkg-deb --fsys-tarfile "$1" | tar -C "$0" --keep-directory-symlink \
      --numeric-owner --exclude="./usr/share/man/*" --exclude="./usr/share/locale/*" --exclude="./usr/share/doc/*" -xf -' \
      "$root"
  # dpkg inside knows what is there.
  mkdir -p "$root/var/lib/dpkg"/{info,updates}
  for name in "$folder"/*.deb; do
    dpkg-deb --field "$name"
    echo "Status: install ok installed"
    echo
  done >"$root/var/lib/dpkg/status"
}

# What maintainer scripts would do.
fc_debian_finish() {
  local root=$1 major=$2
  mkdir -p "$root"/{dev,proc,sys,tmp,run/postgresql,root,project}
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
  echo "postgres:x:990:990::/tmp:/bin/bash" >>"$root/etc/passwd"
  echo "postgres:x:990:" >>"$root/etc/group"
  echo "127.0.0.1 localhost" >"$root/etc/hosts"
  rm "$root"/etc/pam.d/* # they include files that scripts make
  printf '%s required pam_permit.so\n' auth account password session | tee "$root/etc/pam.d/runuser" >"$root/etc/pam.d/other"
  ln -s mawk "$root/usr/bin/awk"
  ln -s gcc "$root/usr/bin/cc"
  chroot "$root" /sbin/ldconfig
  chroot "$root" "/usr/lib/postgresql/$major/bin/postgres" --version
}

fc_debian_run() {
  local place=$1 tree=$2 build=$3 tmp=$4
  shift 4
  # shellcheck disable=SC2016  # expanded by the inner shell
  exec unshare --mount --pid --ipc --fork --kill-child --propagation private bash -c '
    set -euo pipefail
    root=$1 tree=$2 build=$3 tmp=$4 mnt=$5
    shift 5
    mount --bind "$root" "$root"
    mount --bind "$tree" "$root/project"
    mount -o remount,bind,ro "$root/project"
    mount --bind "$build" "$root/project/build"
    mount --bind "$tmp" "$root/tmp"
    [ -z "$mnt" ] || { mkdir -p "$root/mnt" && mount --bind "$mnt" "$root/mnt"; }
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount --rbind /sys "$root/sys"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=1777 tmpfs "$root/run"
    mount -o remount,bind,ro "$root"
    cd "$root"
    exec chroot "$root" "$@"' bash "$place/root" "$tree" "$build" "$tmp" "${FC_DEBIAN_MNT:-}" "$@"
}
