#!/usr/bin/env bash
# Sourced by test.sh: the Python tools of the project, in a folder of their own. Nothing of the machine's Python is changed.
#
#   fc_python_make ROOT      makes ROOT/build/pgflash-venv with pgflash, what it needs, and the tools of its tests; does nothing
#                            if it is there and pyproject.toml is no newer
#   fc_python ROOT           names the folder of its programs
#
# Needs Python 3.11 or newer with venv (Debian: python3-venv) and, the first time, the network.

fc_python() { echo "$1/build/pgflash-venv/bin"; }

fc_python_make() {
  local root=$1 place=$1/build/pgflash-venv stamp=$1/build/pgflash-venv/made-of
  cmp -s "$root/pyproject.toml" "$stamp" && return 0
  rm -rf "$place"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "pgflash needs Python 3.11 or newer" >&2
    return 1
  }
  python3 -m venv "$place"
  "$place/bin/python" -m pip install --quiet --disable-pip-version-check --editable "${root}[dev]"
  cp "$root/pyproject.toml" "$stamp"
}
