#!/usr/bin/env bash
# Proves: our own suites pass on a server built from its source package with the address and undefined-behaviour
#   sanitizers and assertions, the extension with the same flags (kept in build/sanitize/), and no tool has a report.
#   FC_SANITIZE names the stages (sanitize/run.sh).
# Majors: 15
# When: named
# Packages: bison flex
# Fetches: upstream
# Minutes: 40
# Guard: 240 minutes

stage() {
  "$root/test/sanitize/run.sh" address "$(analysis_directory address)"
}
