#!/usr/bin/env bash
# Proves: each race of the protocol, forced with pause points: both orders, not the lucky one.
# Majors: 15 17 18 19
# Minutes: 1

stage() {
  run_own_suite isolation specs .spec
}
