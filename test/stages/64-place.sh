#!/usr/bin/env bash
# Proves: pgflash place and tier: the search for the best split against trying all, which devices may hold data that must
#   last, on made-up trees of sysfs; moves on a real server with several tablespaces, with and without pg_repack: there, back,
#   refused, without room, cancelled, cut short by kill -9 of the tool and of the server, with amcheck afterwards; tiers with
#   native partitions and those of pg_partman. The server is the private one.
# Majors: 15
# Packages: postgresql-15-partman postgresql-15-repack python3-venv
# Packages of root: mount
# Fetches: python
# Rights: any; as root with a small file system
# Minutes: 2

stage() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp "$(fc_python "$root")/python" -m pytest -rs --durations=10 "--junit-xml=$work/place.xml" test/place) ||
    status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/place.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}
