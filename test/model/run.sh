#!/usr/bin/env bash
# Checks the models of the protocol with spin: every run of runs.txt, as many at a time as there are processors.
#
# usage: run.sh DIR [NAME...]      all runs, or those named; DIR gets what spin, the compiler and the checks wrote
#
# A run passes when it ends as runs.txt says:
#   holds, spare   no error, and the search was complete: spin says that it left nothing out, and for holds also that there
#                  is no statement that was never reached
#   caught         the assertion that a hit is D(p) was violated; any other error does not count
# What a run did is in DIR/NAME.out; the shortest way to a violation is found by
#   cd DIR/NAME && ./pan -i -m1000 && spin -t -p protocol.pml
# Runs whose names begin with warm- are of warm.pml, all others of protocol.pml.
#
# The last line is `N passed, M failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$1
shift
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

# Limits, not expectations: a run that needs more is reported as incomplete. Memory is that of one run.
memory_mb=1100
depth=1000000

# one_run NAME EXPECT SETTINGS: prints one line.
one_run() {
  local name=$1 expect=$2 settings=$3 out=$dir/$1.out setting status=0 began=$SECONDS why states model=protocol.pml
  local -a defines=()
  mkdir -p "$dir/$name"
  cd "$dir/$name"
  case $name in warm-*) model=warm.pml ;; esac
  cp "$here/$model" .
  for setting in $settings; do
    # A setting that the model does not know would change nothing.
    if ! grep -qE "\b${setting%%=*}\b" "$model"; then
      echo "not ok $name: the model knows no ${setting%%=*}"
      return
    fi
    defines+=("-D$setting")
  done
  {
    spin -a "${defines[@]}" "$model"
    gcc -O2 -w -DSAFETY -DNOFAIR -DMEMLIM="$memory_mb" -o pan pan.c
    ./pan -m"$depth"
  } >"$out" 2>&1 || status=$?
  states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$out")
  why=$(verdict "$expect" "$out")
  if [ "$status" -ne 0 ] && [ -z "$why" ]; then
    why="ended with status $status"
  fi
  if [ -z "$why" ]; then
    echo "ok $name: $expect, ${states:-?} states, $((SECONDS - began)) s"
    rm -f pan pan.*
  else
    echo "not ok $name: $why"
    tail -n 30 "$out" | sed 's/^/    /'
  fi
}

# What is wrong with the outcome; nothing when it is as expected.
verdict() {
  local expect=$1 out=$2 errors hit
  errors=$(sed -nE 's/^State-vector .* errors: ([0-9]+)$/\1/p' "$out")
  hit=$(grep -cE '^pan:1: assertion violated \((frame\[p\]==D\[p\]\)|\(frame==d\.page|\(\(w_page==1\)\|\| *!\(unlogged\)| *!\(w_extent\)\|\|)' "$out" || true)
  if [ -z "$errors" ]; then
    echo "did not run"
  elif [ "$expect" = caught ]; then
    if [ "$errors" -eq 0 ]; then
      echo "not caught"
    elif [ "$hit" -eq 0 ]; then
      echo "another error than the one expected: $(grep -m 1 '^pan:1:' "$out" || true)"
    fi
  elif [ "$errors" -ne 0 ]; then
    echo "an error: $(grep -m 1 '^pan:1:' "$out" || true)"
  elif grep -qiE 'search not completed|max search depth too small|out of memory|memlim|truncat|resource' "$out"; then
    echo "the search was not complete"
  elif ! grep -qE '^Full statespace search for:' "$out" || ! grep -qE 'assertion violations[[:space:]]+\+' "$out" ||
    ! grep -qE 'invalid end states[[:space:]]+\+' "$out"; then
    echo "not a full search for violated assertions and deadlocks"
  elif [ "$expect" = holds ] && unreached "$out" | grep -q .; then
    echo "never reached: $(unreached "$out" | tr '\n' ';')"
  fi
}

# Statements that no execution reached; the end of a process that runs for ever is none.
unreached() {
  sed -nE '/^unreached in/,$ s/^\t((protocol|warm)\.pml:[0-9]+, state [0-9]+, ".*")$/\1/p' "$1" | grep -vF '"-end-"' || true
}

# A check that cannot fail is none: each of these runs must be turned down, for the reason given.
self_test() {
  local name expect limit settings reason result
  while read -r name expect limit settings reason; do
    result=$(depth=$limit one_run "self-$name" "$expect" "${settings//,/ }")
    if [[ $result == "not ok self-$name: $reason"* ]]; then
      echo "ok self-test: $name is turned down"
    else
      echo "not ok self-test: $name: $result"
    fi
  done <<'END'
not-caught caught 1000000 SLOTS=1 not caught
broken holds 1000000 SLOTS=1,BREAK_F6_GUARD an error: pan:1: assertion violated
broken-spare spare 1000000 SLOTS=1,BREAK_F6_GUARD an error: pan:1: assertion violated
too-deep holds 100 SLOTS=1 the search was not complete
unknown holds 1000000 SLOTS=1,BREAK_NOTHING the model knows no BREAK_NOTHING
not-reached holds 1000000 SLOTS=1,SELF_TEST_UNREACHED never reached:
other-error caught 1000000 SLOTS=1,SELF_TEST_OTHER another error than the one expected:
no-model caught 1000000 SLOTS=NOTHING did not run
END
}

names=("$@")
chosen() {
  local name
  [ ${#names[@]} -gt 0 ] || return 0
  for name in "${names[@]}"; do
    [ "$name" != "$1" ] || return 0
  done
  return 1
}

# The long ones first, so that the short ones fill the gaps at the end.
jobs=0
began=$SECONDS
while read -r name expect rest; do
  case $name in '' | '#'*) continue ;; esac
  chosen "$name" || continue
  # Settings end where the text begins: two blanks or more.
  settings=$(sed -E 's/ {2,}.*//' <<<"$rest")
  if [ "$jobs" -ge "$(nproc)" ]; then
    wait -n || true
    jobs=$((jobs - 1))
  fi
  one_run "$name" "$expect" "$settings" >"$dir/$name.result" 2>&1 &
  jobs=$((jobs + 1))
done <"$here/runs.txt"
wait

passed=0
failed=0
if [ ${#names[@]} -eq 0 ]; then
  self_test >"$dir/self-test.result" 2>&1
  cat "$dir/self-test.result"
  passed=$(grep -c '^ok ' "$dir/self-test.result" || true)
  failed=$(grep -c '^not ok ' "$dir/self-test.result" || true)
fi
while read -r name _; do
  case $name in '' | '#'*) continue ;; esac
  chosen "$name" || continue
  cat "$dir/$name.result"
  if grep -q '^ok ' "$dir/$name.result"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done <"$here/runs.txt"
echo "all runs took $((SECONDS - began)) s"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
