#!/usr/bin/env bash
# Proves: what the code asserts (locks held and not held, what only the writer may do, bounds): `regress`, `isolation`
#   and `tap` with a library that is built with assertions, in the server as it is: that one has the function which an
#   assertion calls that fails.
# Majors: 15 17 18 19
# Rights: any; as root with real devices, as `tap`
# Minutes: 8
# Guard: 120 minutes

stage() {
  local status=0
  (
    export FC_DEFINES=-DUSE_ASSERT_CHECKING
    fc_private_server "$work/asserting"
    fc_private_build "$root" "$work/asserting/tree"
    fc_private_install "$work/asserting/tree"
    nm -D --undefined-only "$FC_LIBDIR/pg_flashcache.so" | grep -w ExceptionalCondition
    run_own_suite regress sql .sql cassert-regress || true
    run_own_suite isolation specs .spec cassert-isolation || true
    fc_root_places "$places" postgres
    # shellcheck disable=SC2086  # FC_TAP is the beginning of the names
    run_prove cassert "$tree"/test/tap/${FC_TAP:-}*.pl
    fc_root_places_away "$places"
    count_prove cassert
    # A test that kills servers does not see that one has ended by itself.
    find "$run/cassert" "$run/cassert-regress" "$run/cassert-isolation" -type f \( -name '*.log' -o -name log \) \
      -exec grep -ah '^TRAP: ' {} + | sed 's/, PID: .*//' | sort | uniq -c >"$work/traps" || true
    cat "$work/traps"
    echo "$([ -s "$work/traps" ] && echo 0 || echo 1) passed, $(wc -l <"$work/traps") failed"
  ) 2>&1 | tee "$work/cassert" || status=$?
  sum_suites "$work/cassert" 4 "$status"
}
