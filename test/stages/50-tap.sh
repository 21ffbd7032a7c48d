#!/usr/bin/env bash
# Proves: restart, crash, standby, promotion, reuse of relation and database numbers, broken devices: what needs a server
#   of its own. Where root runs it, devices that really fail: stopped, slow, read-only, shortened, taken away, full
#   (lib/root-places.sh).
# Majors: 15 17 18 19
# Rights: any; as root with real devices (loop devices, and fuse3 and libfuse3-dev where they are installed)
# Minutes: 5

stage() {
  fc_root_places "$places" postgres
  # shellcheck disable=SC2086  # FC_TAP is the beginning of the names
  run_prove tap "$tree"/test/tap/${FC_TAP:-}*.pl
  fc_root_places_away "$places"
  count_prove tap
}
