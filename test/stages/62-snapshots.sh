#!/usr/bin/env bash
# Proves: pgflash snapshot, report and diff: snapshots of a real server whose sums are those of its counters, waits that are
#   sampled, retention, a reset and a restart that are seen, what is missing or refused and what is said of it, dumps that
#   are none the larger; verdicts, waits by class and percentiles from made-up intervals; the systemd units. Samples of a
#   stand-in of pg_profile, and its report with sections of ours in it, in a real browser.
# Majors: 15
# Packages: chromium python3-venv
# Fetches: python
# Minutes: 3

stage() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp "$(fc_python "$root")/python" -m pytest -rs --durations=10 "--junit-xml=$work/snapshots.xml" test/snapshots) ||
    status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/snapshots.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}
