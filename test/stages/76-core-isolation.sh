#!/usr/bin/env bash
# Proves: PostgreSQL's own isolation specs (117 on 15) pass under the settings of `core`.
# Majors: 15 17 18 19
# Fetches: upstream
# Minutes: 2

stage() {
  upstream_suite isolation
}
