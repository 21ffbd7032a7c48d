#!/usr/bin/env bash
# Proves: pgflash cluster and pgflash agent: what is read of Patroni's REST API, which nodes may be restarted, in which order and
#   what stops that, answers over HTTP in bounded time. A real cluster of Patroni with etcd, HAProxy that asks the agents, and
#   pgbouncer: under load all caches get another size, one node after the other, with a switch-over; the leader is killed by
#   kill -9 and rewound. Rows are those of the clients' log, no node reads a wrong page, the views of all nodes show who is down.
# Majors: 15
# Packages: etcd-server haproxy patroni pgbouncer python3-venv
# Fetches: python
# Minutes: 2

stage() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp FC_CLUSTER_LOGS=$(stage_directory cluster) \
    "$(fc_python "$root")/python" -m pytest -rs --durations=10 "--junit-xml=$work/cluster.xml" test/cluster) || status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/cluster.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}
