#!/usr/bin/env bash
# Sourced by test.sh and tools/docs.sh: the Python tools of the project, in folders of their own. Nothing of the machine's
# Python is changed.
#
#   fc_python_make ROOT [GROUP]  makes ROOT/build/GROUP-venv; does nothing if it is there and pyproject.toml is as it was.
#                                pgflash (the default) has pgflash, what it needs, and the tools of its tests;
#                                docs has what builds the documentation
#   fc_python ROOT [GROUP]       names the folder of its programs
#
# Needs Python 3.11 or newer and, the first time, the network. Debian has venv in a package, which is installed if it is missing.

. "${BASH_SOURCE[0]%/*}/packages.sh"

fc_python() { echo "$1/build/${2:-pgflash}-venv/bin"; }

fc_python_make() {
  local root=$1 group=${2:-pgflash} place stamp
  local -a what=(--editable "${root}[dev]")
  place=$root/build/$group-venv
  stamp=$place/made-of
  cmp -s "$root/pyproject.toml" "$stamp" && return 0
  rm -rf "$place"
  python3 -c 'import ensurepip, venv' 2>/dev/null || fc_need_packages python3-venv || return
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed" >&2
    return 1
  }
  if [ "$group" != pgflash ]; then
    mapfile -t what < <(python3 -c 'import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["project"]["optional-dependencies"][sys.argv[2]], sep="\n")' \
      "$root/pyproject.toml" "$group")
  fi
  python3 -m venv "$place"
  "$place/bin/python" -m pip install --quiet --disable-pip-version-check "${what[@]}"
  cp "$root/pyproject.toml" "$stamp"
}
