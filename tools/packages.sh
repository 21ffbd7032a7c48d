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
  if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    fc_root mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | fc_root tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  local log
  log=$(mktemp)
  if ! { fc_root apt-get update -qq && fc_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "could not install: ${missing[*]}" >&2
    return 1
  fi
  rm -f "$log"
}

fc_as_postgres() {
  if [ "$(id -u)" -eq 0 ]; then
    runuser -u postgres -- "$@"
  else
    "$@"
  fi
}
