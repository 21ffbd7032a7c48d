#!/usr/bin/env bash
# Proves with a stand-in for test.sh what test/server/all.sh says of its runs: the sum, what failed, what broke off, what was
# left out; that each stage of 15 is in its plan; and that no more than two runs are under way, and two are.
#
# usage: check-all.sh    prints what is wrong; exit status 1 then
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$here/../lib/check.sh"

# Each run waits for another one that is under way, but for the last ones.
cat >"$dir/test.sh" <<'X'
#!/usr/bin/env bash
dir=${0%/*}
[ "$3" != --install ] || { echo "$*" >>"$dir/installed"; exit 0; }
echo "$*" >>"$dir/ran"
touch "$dir/under.$$"
for ((i = 0; i < 100; i++)); do
  set -- "$@"
  running=("$dir"/under.*)
  echo "${#running[@]}" >>"$dir/together"
  [ ${#running[@]} -lt 2 ] || break
  sleep 0.02
done
sleep 0.05
rm "$dir/under.$$"
case $2,$FC_EXTRA_CONF in
  17,shared*) printf 'PostgreSQL 17, core:\n  7:not ok 7 - a test\n' >"$FC_LOGS/failures"; echo "5 passed, 2 failed"; exit 1 ;;
  16,*) echo "something is missing"; exit 1 ;;
  19,*) echo "cannot be had here"; exit 3 ;;
esac
echo "10 passed, 0 failed"
X
chmod 755 "$dir/test.sh"
mkdir "$dir/build"
status=0
(
  . "$here/../lib/stages.sh"
  . "$here/all.sh"
  fc_stage_load "$here/../stages"
  fc_stage_names 15 always | sort >"$dir/stages"
  fc_test_all "$dir" --all
) >"$dir/said" 2>&1 || status=$?

is 'the exit status' "$status" 1
is 'the last line' "$(tail -n 1 "$dir/said")" '75 passed, 3 failed'
is 'each line is run' "$(wc -l <"$dir/ran")" 10
is 'each was installed before' "$(wc -l <"$dir/installed")" 10
is 'what failed is said at the end' "$(sed -n '/^=== failed/,/^=== all/p' "$dir/said" | grep -cE 'not ok 7|17, shared_buffers|16 broke off|something is missing')" 4
is 'what was left out is said' "$(grep -c '^PostgreSQL 19: left out. cannot be had here' "$dir/said")" 1
is 'two at a time' "$(sort -un "$dir/together" | tail -n 1)" 2
is 'all stages of 15, cassert on 17' "$(sed -nE 's/^--server 1[57] //p' "$dir/ran" | tr ' ' '\n' | sort -u | diff - "$dir/stages")" ''
is 'cassert once' "$(grep -c cassert "$dir/ran")" 1
# shellcheck disable=SC2031  # fc_test_all has one of its own
[ "$failed" -eq 0 ] || { cat "$dir/said" && exit 1; }
