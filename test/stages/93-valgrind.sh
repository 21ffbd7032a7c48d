#!/usr/bin/env bash
# Proves: our own suites pass on the distribution's server with each process under memcheck, which has no report.
#   FC_SANITIZE names the stages (sanitize/run.sh).
# Majors: 15
# When: named
# Packages: valgrind
# Fetches: upstream
# Minutes: 60
# Guard: 240 minutes

stage() {
  "$root/test/sanitize/run.sh" valgrind "$(analysis_directory valgrind)"
}
