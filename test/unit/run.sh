#!/usr/bin/env bash
# Runs the unit tests given; last line `N passed, N failed`.
set -euo pipefail

passed=0
failed=0
for program in "$@"; do
  status=0
  output=$("$program" 2>&1) || status=$?
  ok=$(grep -c '^ok ' <<<"$output" || true)
  bad=$(grep -c '^not ok ' <<<"$output" || true)
  # A program that dies, or doesn't get to its plan, has failed as well.
  if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || ! grep -qx "1..$ok" <<<"$output"; }; then
    bad=1
  fi
  echo "${program##*/}: $ok passed, $bad failed"
  [ "$bad" -eq 0 ] || echo "$output"
  passed=$((passed + ok))
  failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
