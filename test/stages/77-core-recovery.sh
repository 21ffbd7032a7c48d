#!/usr/bin/env bash
# Proves: PostgreSQL's recovery TAP suite (crash, standby, promotion, tablespaces, databases) passes as on the stock
#   server; each cluster with 48 shared buffers, a cache of 64 slots and every hit compared with the disk. FC_RECOVERY
#   names other scripts (upstream/recovery.sh).
# Majors: 15 17 18
# Fetches: upstream
# Minutes: 3

stage() {
  upstream_tests
  server "$tree/test/upstream/recovery.sh" "$work/upstream" "$(stage_directory u-recovery)" \
    "$tree/src" "${FC_RECOVERY:-short}"
}
