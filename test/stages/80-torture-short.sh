#!/usr/bin/env bash
# Proves: two minutes of the torture, always by one seed (the major), so that a run of all tests repeats the last one;
#   `torture` and torture/run draw one. It ends with a kill and a clean stop with persistence, after which pages must be
#   there again. FC_TORTURE has other arguments.
# Majors: 15 17 18 19
# Fetches: python
# Minutes: 3

stage() {
  run_torture torture "${FC_TORTURE:---seed $major}"
}
