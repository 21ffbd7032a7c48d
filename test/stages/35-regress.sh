#!/usr/bin/env bash
# Proves: the SQL surface: views, functions, settings, privileges, exact counters.
# Majors: 15 16 17 18 19
# Minutes: 1

stage() {
  run_own_suite regress sql .sql
}
