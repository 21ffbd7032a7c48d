#!/usr/bin/env bash
# Sourced: the tests of a suite that a shell script drives.
#
#   check DESCRIPTION COMMAND...   one test: passed if the command succeeds; otherwise what it printed is shown
#   is DESCRIPTION GOT EXPECTED    one test: passed if they are the same; otherwise both are shown
#   passed, failed                 how many so far; the suite ends with the line `N passed, N failed`
#
# What the last command printed is in $dir/check; $dir is the suite's own directory.
#
# shellcheck disable=SC2034,SC2154  # the variables are of the script that sources this

passed=0
failed=0

check() {
  local what=$1
  shift
  if "$@" >"$dir/check" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "not ok: $what"
    head -n 100 "$dir/check"
  fi
}

is() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
    echo "ok: $1"
  else
    failed=$((failed + 1))
    printf 'not ok: %s\n  got:      %s\n  expected: %s\n' "$1" "$2" "$3"
  fi
}
