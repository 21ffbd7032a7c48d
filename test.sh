#!/usr/bin/env bash
# Installs what the tests need, builds the extension with -Werror, and runs all tests.
#
# usage: ./test.sh [--server MAJOR] [--keep] [STAGE...]   all stages that this major can run, or those named
#        ./test.sh [--server MAJOR] --list                a table of them: what each proves and needs
#        ./test.sh [--server MAJOR] --install [STAGE...]  installs and downloads what they need, and runs nothing
#        ./test.sh --all                                  all on 15, then the majors after it (test/server/all.sh)
#        ./test.sh --full                                 all on every major: hours
#
# MAJOR is 15 unless it is named. 15 is Debian 12's own; 16 comes from a Python wheel; 17, 18 and 19 come from later Debian
# suites, unpacked into a folder in which the same stages run (as root): test/README.md.
#
# A stage is a file in test/stages/, whose head says what it proves and needs (test/lib/stages.sh).
#
# Works on a bare Debian 12 as root or with sudo; with everything installed nobody needs to be root. Nothing of the
# machine's PostgreSQL is touched: the extension goes into a private copy of it (test/lib/private-server.sh) below
# TMPDIR, with everything else that the tests write, and all of it is removed at the end, also after an interruption.
# --keep leaves it. What a stage printed is in build/test-logs/ (build/test-logs-MAJOR/ for another than 15), and the files
# of a failed stage are beside it; FC_LOGS in the environment is where the logs go instead. What stages take from the
# environment is in test/README.md.
#
# What failed is repeated before the summary. The last line is `N passed, N failed`. The exit status is 0 only when
# something passed and nothing failed, 3 when this machine cannot have that server.
set -euo pipefail
umask 022

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$root/tools/packages.sh"
. "$root/test/lib/private-server.sh"
. "$root/tools/debian.sh"
. "$root/test/server/wheel.sh"
. "$root/test/server/all.sh"
. "$root/test/server/inside.sh"
. "$root/test/upstream/fetch.sh"
. "$root/test/package/trixie.sh"
. "$root/test/lib/root-places.sh"
. "$root/tools/python.sh"
. "$root/test/lib/stages.sh"
. "$root/test/lib/suites.sh"
. "$root/test/lib/runner.sh"

# What all stages need, of Debian.
tools=(binutils bzip2 dpkg-dev e2fsprogs gcc libipc-run-perl liburing-dev make perl python3 xz-utils)

fc_stage_load "$root/test/stages" || exit 2
keep=0
do=run
arguments=("$@")
major=15
chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --all | --full)
      fc_test_all "$root" "$1"
      exit
      ;;
    --server)
      major=${2:-}
      shift
      ;;
    --list) do=list ;;
    --install) do=install ;;
    --keep) keep=1 ;;
    *) chosen+=("$1") ;;
  esac
  shift
done
mapfile -t stages < <(fc_stage_names "$major" always)
mapfile -t long_stages < <(fc_stage_names "$major" named)
if [ ${#stages[@]} -eq 0 ]; then
  echo "no such server: $major; there are: ${!fc_test_left_out[*]}" >&2
  exit 2
fi
if [ "$do" = list ]; then
  fc_stage_table "$major"
  exit 0
fi
for stage in "${chosen[@]}"; do
  if ! grep -qxF -- "$stage" < <(printf '%s\n' "${stages[@]}" "${long_stages[@]}"); then
    echo "PostgreSQL $major has no stage $stage; there are: ${stages[*]} ${long_stages[*]}${fc_test_left_out[$major]:+ (${fc_test_left_out[$major]})}" >&2
    exit 2
  fi
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${stages[@]}")
export FC_PG_MAJOR=$major
# What the tests mount is seen by nobody else: a namespace that is made meanwhile has copies of all mounts, and what a test
# unmounts would stay mounted there.
if [ "${FC_MOUNTS:-}" != own ] && [ "$(id -u)" -eq 0 ] && unshare --mount true 2>/dev/null; then
  FC_MOUNTS=own exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "${arguments[@]}"
fi
mkdir -p "$root/build"

# Does one of the chosen stages say so in its head?
wanted() {
  local stage
  for stage in "${chosen[@]}"; do
    [[ " $(fc_stage_head "$stage" "$1") " != *" $2 "* ]] || return 0
  done
  return 1
}

# A major that this machine has, or can have, is tested on the machine itself; so it is inside a folder made for it.
place=
if [ -z "${PG_CONFIG:-}" ] && [ -n "${fc_debian_suite[$major]:-}" ] && [ -n "$(fc_missing_packages "postgresql-$major")" ]; then
  fc_debian_can "$major" >&2 || exit 3
  place=$root/build/servers/$major
  fc_debian_make "$major" "$place" "${tools[@]}"
else
  packages=("${tools[@]}")
  if [ -z "${PG_CONFIG:-}" ] && [ "$major" -ne 16 ]; then
    packages+=("postgresql-$major" "postgresql-server-dev-$major")
  fi
  mapfile -t -O ${#packages[@]} packages < <(fc_stage_packages "${chosen[@]}")
  fc_need_packages "${packages[@]}"
fi
# Of a folder it is done outside, where there is a network.
if [ -n "$place" ] || [ "$do" = install ]; then
  ! wanted Fetches upstream || fc_upstream_fetch "$root/build/upstream" ${place:+"$place"} >/dev/null
  ! wanted Fetches python || fc_python_make "$root"
  ! wanted Fetches python-beside || [ -z "$place" ] || fc_python_for "$root" "$(fc_inside_python "$place")"
  ! wanted Fetches docs || fc_python_make "$root" docs
  ! wanted Fetches trixie || ! fc_trixie_can >/dev/null || fc_trixie_make "$root"
  [ "$do" = run ] || exit 0
fi
[ -z "$place" ] || fc_inside "$root" "$major" "$keep" "${chosen[@]}"

fc_run_begin
if [ -z "${PG_CONFIG:-}" ] && [ "$major" -eq 16 ]; then
  PG_CONFIG=$(fc_wheel_unpack "$root/build/servers/16" "$work")
  export PG_CONFIG
fi
fc_private_server "$work/pg"
if wanted Build yes && ! grep -qx build < <(printf '%s\n' "${chosen[@]}"); then
  chosen=(build "${chosen[@]}")
fi
for stage in "${chosen[@]}"; do
  fc_run_stage "$stage"
  if [ "$stage" = build ] && [ ! -e "$FC_LIBDIR/pg_flashcache.so" ]; then
    summary+=("nothing else could run without a build")
    break
  fi
done
fc_run_end
