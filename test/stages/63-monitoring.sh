#!/usr/bin/env bash
# Proves: files for monitoring tools: each column of pg_stat_flashcache is a metric or left out for a reason; Debian's
#   prometheus-sql-exporter reads a server, Prometheus reads that, and the numbers are the server's; alerts fire on what they
#   are for and on nothing else; all SQL runs, the dashboard keeps to Grafana's schema, each of its queries has an answer from that
#   Prometheus, and its picture of storage has the tablespaces and file systems that there are. PoWA, its worker and its collector take snapshots of the cache
#   that have the server's numbers, aggregate and purge them. pgflash top: its numbers, on a terminal and without one, with
#   servers that are down or silent, and that it shows no password.
# Majors: 15
# Packages: postgresql-15-powa powa-collector prometheus prometheus-node-exporter prometheus-sql-exporter python3-venv
# Fetches: python
# Minutes: 2

stage() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp "$(fc_python "$root")/python" -m pytest -rs --durations=10 "--junit-xml=$work/monitoring.xml" test/monitoring) ||
    status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/monitoring.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  # Nothing may be skipped: all that the tests need has been installed.
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures + skipped)) failed"
}
