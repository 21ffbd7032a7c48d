#!/usr/bin/env bash
# Proves: PostgreSQL's own regression tests (217 on 15) pass as on the stock server: 128 shared buffers, a cache of 64 and
#   one of 4096 slots, every hit compared with the disk, then one as users have it; a streaming standby with a cache
#   beside each. FC_ARMS names other sizes (upstream/run.sh).
# Majors: 15 16 17 18 19
# Fetches: upstream
# Minutes: 4

stage() {
  upstream_suite core
}
