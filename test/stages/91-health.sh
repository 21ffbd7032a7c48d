#!/usr/bin/env bash
# Proves: a server that works for an hour is as it was: memory, descriptors, locks, counters (torture/health.py).
#   torture/run --health is the way to call it.
# Majors: 15 17 18 19
# When: named
# Fetches: python
# Minutes: 60, or as many as one likes
# Guard: none

stage() {
  local status=0
  run_torture health "--health ${FC_TORTURE:---minutes 60}" || status=$?
  mkdir -p "$logs/health-samples"
  cp "$run"/health/{samples.jsonl,health.md} "$logs/health-samples/" 2>/dev/null || true
  return "$status"
}
