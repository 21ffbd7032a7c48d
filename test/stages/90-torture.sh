#!/usr/bin/env bash
# Proves: crashes at random moments, in rounds: what was acknowledged is there, nothing stale is read (test/README.md).
#   torture/run is the way to call it; FC_TORTURE has the arguments.
# Majors: 15 17 18 19
# When: named
# Fetches: python
# Minutes: 10, or as many as one likes
# Guard: none

stage() {
  run_torture torture "${FC_TORTURE:-}"
}
