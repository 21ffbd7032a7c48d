#!/usr/bin/env bash
# Sourced by the scripts of this project: what they need from Debian, and who runs what.
#
#   fc_need_packages PACKAGE...   installs those of the packages that are missing (as root, or through sudo)
#   fc_as_postgres COMMAND...     runs COMMAND as an unprivileged user: PostgreSQL refuses to run as root.
#                                 Root becomes `postgres`; anybody else stays who they are.
#
# Nothing is downloaded when nothing is missing, so a machine without a network can run the scripts again.
# Installing postgresql-15 must not leave a cluster running that nobody asked for, so cluster creation is
# switched off for the installation on a machine that has no PostgreSQL yet.

fc_missing_packages() {
  local p
  for p in "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$p" 2>/dev/null | grep -qx installed || echo "$p"
  done
}

fc_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "this step needs root: run it as root, or install sudo: $*" >&2
    return 1
  fi
}

fc_need_packages() {
  local -a missing
  mapfile -t missing < <(fc_missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing from Debian: ${missing[*]}" >&2
  # The configuration file that comes with the packages includes this folder.
  local log status=0 folder=/etc/postgresql-common/createcluster.d own=
  if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    own=$folder/pg_flashcache.conf
    fc_root mkdir -p "$folder"
    echo 'create_main_cluster = false' | fc_root tee "$own" >/dev/null
  fi
  log=$(mktemp)
  { fc_root apt-get update -qq && fc_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "${missing[@]}"; } >"$log" 2>&1 || status=1
  if [ -n "$own" ]; then
    fc_root rm -f "$own"
    fc_root rmdir --ignore-fail-on-non-empty "$folder"
  fi
  if [ "$status" -ne 0 ]; then
    cat "$log" >&2
    echo "could not install: ${missing[*]}" >&2
  fi
  rm -f "$log"
  return "$status"
}

fc_as_postgres() {
  if [ "$(id -u)" -eq 0 ]; then
    runuser -u postgres -- "$@"
  else
    "$@"
  fi
}
