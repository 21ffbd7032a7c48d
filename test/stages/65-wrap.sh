#!/usr/bin/env bash
# Proves: a build in which all generations, epochs, versions, positions and counters begin three short of the end of their
#   range: `regress`, `isolation`, the TAP scripts 001 to 009, and wrap/201_wrap.pl, where each wraps around by itself.
# Majors: 15 17 18 19
# Minutes: 5

stage() {
  local status=0
  (
    export FC_DEFINES="-DFC_START=-3 -DFC_EPOCHS_UNSWEPT=2000"
    fc_private_server "$work/wrapped"
    fc_private_build "$root" "$work/wrapped/tree"
    fc_private_install "$work/wrapped/tree"
    run_own_suite regress sql .sql wrap-regress || true
    run_own_suite isolation specs .spec wrap-isolation || true
    run_prove wrap "$tree"/test/wrap/*.pl "$tree"/test/tap/00*.pl
    count_prove wrap
  ) 2>&1 | tee "$work/wrap" || status=$?
  sum_suites "$work/wrap" 3 "$status"
}
