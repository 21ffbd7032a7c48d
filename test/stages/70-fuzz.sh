#!/usr/bin/env bash
# Proves: damaged blocks thrown at everything that looks at what a device gave back, with sanitizers; then a server whose
#   cache file is overwritten and shuffled under load. FC_FUZZ_SECONDS and FC_SEED: how long each half takes, and with
#   which numbers.
# Majors: 15
# Minutes: 2

stage() {
  local passed=0 failed=0 seed status=0
  seed=${FC_SEED:-$(($(date +%s) % 100000))}
  make -C "$tree/test/fuzz" --silent --no-print-directory CC="${CC:-gcc}" PG_CONFIG="$FC_PG_CONFIG" OUT="$work/fuzz"
  if "$work/fuzz/fuzz" "$seed" "${FC_FUZZ_SECONDS:-30}"; then passed=1; else failed=1; fi
  server "$tree/test/fuzz/device.sh" "$(stage_directory fuzz)" "${FC_FUZZ_SECONDS:-30}" "$seed" 2>&1 | tee "$work/fuzzed" || status=$?
  if [[ $(tail -n 1 "$work/fuzzed") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))
  fi
  [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  echo "$passed passed, $failed failed"
}
