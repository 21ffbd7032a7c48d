#!/usr/bin/env bash
# Proves: pgflash doctor: each check on a made-up machine, silent where all is well and with its exact commands where one
#   thing is wrong; --fix and --undo on such a machine and on a real server; loop devices, device mapper, FUSE and a mount
#   namespace where this machine has them; the table in docs/doctor.md is that of the checks.
# Majors: 15
# Packages: python3-venv
# Packages of root: fuse3 libfuse3-dev pkg-config mount dmsetup
# Fetches: python
# Rights: any; as root with devices and mounts
# Minutes: 1

stage() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp "$(fc_python "$root")/python" -m pytest -rs --durations=5 "--junit-xml=$work/doctor.xml" test/doctor) ||
    status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/doctor.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}
