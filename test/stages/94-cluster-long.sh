#!/usr/bin/env bash
# Proves: the cluster of the stage `cluster`, under load, when etcd is killed, the leader is cut off from it, a
#   replica is made anew beside its old flash, one cascades, one is delayed, and a server subscribes to what clients write. Rows
#   are those of the clients' log, and no node reads a wrong page.
# Majors: 15
# Packages: etcd-server haproxy patroni pgbouncer python3-venv
# Fetches: python
# Minutes: 5
# When: named

stage() {
  local status=0 counts errors failures skipped tests
  fc_python_make "$root"
  (cd "$root" && FC_PILOT_BIN=$FC_BINDIR TMPDIR=$work/tmp FC_CLUSTER=full FC_CLUSTER_LOGS=$(stage_directory cluster-long) \
    "$(fc_python "$root")/python" -m pytest -rs --durations=10 "--junit-xml=$work/cluster-long.xml" test/cluster/test_real_long.py) || status=$?
  counts=$(sed -nE 's/.*<testsuite [^>]*errors="([0-9]+)" failures="([0-9]+)" skipped="([0-9]+)" tests="([0-9]+)".*/\1 \2 \3 \4/p' "$work/cluster-long.xml")
  read -r errors failures skipped tests <<<"${counts:-1 0 0 1}"
  [ "$status" -eq 0 ] || [ $((errors + failures)) -gt 0 ] || failures=1
  echo "$((tests - errors - failures - skipped)) passed, $((errors + failures)) failed"
}
