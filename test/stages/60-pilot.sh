#!/usr/bin/env bash
# Proves: pgflash: scenarios and what is said of wrong ones, resuming, advice and figures from a recorded study, every
#   chart in a real browser, and tiny studies on real servers: interrupted, killed, moved objects, an existing server put
#   back as it was, a primary and a standby behind HAProxy with a failover. The servers of the studies are the private one.
# Majors: 15
# Packages: chromium haproxy python3-venv sysbench
# Packages of root: fuse3 libfuse3-dev pkg-config mount
# Fetches: python
# Rights: any; as root with the lab's disk and a memory limit
# Minutes: 3

stage() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  [ "$(id -u)" -eq 0 ] || echo "not root: the tiny studies run on a plain folder, without the lab's disk and without a memory limit"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp "$(fc_python "$root")/python" -m pytest -rs --durations=10 "--junit-xml=$work/pilot.xml" test/pilot) ||
    status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/pilot.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}
