#!/usr/bin/env bash
# Proves: pgflash place and tier: the search for the best split against trying all, which devices may hold data that must
#   last, on made-up trees of sysfs; moves on a real server with several tablespaces, with and without pg_repack: there, back,
#   refused, without room, cancelled, cut short by kill -9 of the tool and of the server, with amcheck afterwards; the same
#   between file systems of their own, ext4 and xfs, with the WAL on a third one; advice from stored snapshots, to the page;
#   tiers with native partitions and those of pg_partman. The server is the private one. On others than 15, a few of the moves,
#   there and back, and tiers, without pg_repack and pg_partman, which are not there; FC_PLACE=full runs all tests that can be
#   run.
# Majors: 15 17 18
# Packages of root: mount
# Packages of 15: postgresql-15-partman postgresql-15-repack python3-venv xfsprogs
# Fetches: python python-beside
# Rights: any; as root with file systems of its own, on loop devices
# Minutes: 2

stage() {
  local status=0 counts errors failures skipped tests
  local -a selection=()
  fc_python_make "$root"
  if [ "$major" -ne 15 ] && [ "${FC_PLACE:-}" != full ]; then
    selection=(-k "there_and_back or pg_repack or test_cancelled or server_is_killed or test_script or may_only_look or test_native or pg_partman or back_and_status or of_moves or size_of_a_copy or told_of_alter")
  fi
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp fc_python_run "$root" -m pytest -rs --durations=10 \
    "--junit-xml=$work/place.xml" "${selection[@]}" test/place) || status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/place.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}
