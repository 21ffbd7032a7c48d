#!/usr/bin/env bash
# Sourced by test.sh and tools/docs.sh: the Python tools of the project, in folders of their own. Nothing of the machine's
# Python is changed.
#
#   fc_python_make ROOT [GROUP]  makes ROOT/build/GROUP-venv; does nothing if it is there and pyproject.toml is as it was.
#                                pgflash (the default) has pgflash, what it needs, and the tools of its tests;
#                                docs has what builds the documentation
#   fc_python ROOT [GROUP]       names the folder of its programs
#   fc_python_for ROOT VERSION   makes ROOT/build/pgflash-VERSION: what pgflash and its tests need, for a Python of that version
#                                (3.13) that another root has, in which there is no network (test/server/inside.sh)
#   fc_python_run ROOT ARG...    runs the Python of the venv; in another root, its own with what is in that folder
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

fc_python_for() {
  local root=$1 version=$2 place=$1/build/pgflash-$2
  local -a what
  fc_python_make "$root" || return
  cmp -s "$root/pyproject.toml" "$place/made-of" && return 0
  rm -rf "$place"
  mapfile -t what < <(python3 -c 'import sys, tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
tools = [one for one in project["optional-dependencies"]["dev"] if one.startswith("pytest")]
print(*project["dependencies"], *tools, sep="\n")' "$root/pyproject.toml")
  "$(fc_python "$root")/python" -m pip install --quiet --disable-pip-version-check --target "$place" --python-version "$version" \
    --only-binary=:all: "${what[@]}" || return
  cp "$root/pyproject.toml" "$place/made-of"
}

fc_python_run() {
  local root=$1 python version
  python=$(fc_python "$root")/python
  shift
  if "$python" -c '' 2>/dev/null; then
    "$python" "$@"
    return
  fi
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  PYTHONPATH=$root:$root/build/pgflash-$version PYTHONDONTWRITEBYTECODE=1 python3 "$@"
}
