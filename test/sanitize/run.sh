#!/usr/bin/env bash
# Runs our own suites on a server that was built with sanitizers, or under valgrind.
#
# usage: run.sh address WORK    address and undefined behaviour, with assertions: PostgreSQL built from source
#        run.sh valgrind WORK   the distribution's server, each of its processes under valgrind's memcheck
#
# WORK is an empty directory below the temporary one. In the environment FC_SANITIZE names the stages of test.sh that are run
# on it, FC_TAP the scripts of `tap`; the defaults are below. test.sh runs them, as on any other installation (PG_CONFIG).
# A report of the tool fails the run, whatever the tests said.
#
# What the tools cannot see: pages in shared memory are one block to them, so a copy into the wrong frame is no error; the
# comparison with the disk (verify) is there for that. ThreadSanitizer knows threads, not processes that share memory, and is
# not used; src/appendix.md has the order of all atomic accesses instead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/tools/packages.sh"
. "$root/tools/debian.sh"
. "$here/../upstream/fetch.sh"
. "$here/server.sh"

how=$1
work=$2
reports=$work/reports
mkdir -p "$reports"
chmod 1777 "$reports"
dsc=$(fc_upstream_fetch "$root/build/upstream")

case $how in
  address)
    fc_need_packages bison flex libipc-run-perl
    PG_CONFIG=$(fc_sanitized_server "$root/build/sanitize" "$dsc")
    fc_sanitized_environment "$reports"
    stages=${FC_SANITIZE:-unit regress isolation tap}
    ;;
  valgrind)
    fc_need_packages valgrind
    # PostgreSQL's own list of what is not an error, from its source package.
    suppressions=$work/valgrind.supp
    dpkg-source --no-copy -x "$dsc" "$work/source" >/dev/null
    cp "$work/source/src/tools/valgrind.supp" "$suppressions"
    rm -rf "$work/source"
    # A copy of the installation in which `postgres` is a script. The real one is beside it, so it finds its files.
    . "$here/../lib/private-server.sh"
    fc_private_server "$work/pg"
    mv "$FC_BINDIR/postgres" "$FC_BINDIR/postgres.real"
    sed -e "s|@REPORTS@|$reports|" -e "s|@SUPPRESSIONS@|$suppressions|" -e "s|@OURS@|$here/valgrind.supp|" \
      "$here/postgres-under-valgrind" >"$FC_BINDIR/postgres"
    chmod 755 "$FC_BINDIR/postgres"
    PG_CONFIG=$FC_PG_CONFIG
    stages=${FC_SANITIZE:-regress isolation tap}
    export FC_TAP=${FC_TAP:-001_}
    export PG_TEST_TIMEOUT_DEFAULT=900 PGCTLTIMEOUT=900
    ;;
  *)
    echo "usage: run.sh address|valgrind WORK" >&2
    exit 2
    ;;
esac

status=0
# shellcheck disable=SC2086  # the stages are words
PG_CONFIG=$PG_CONFIG FC_LOGS=$root/build/test-logs-$how "$root/test.sh" build $stages 2>&1 | tee "$work/output" || status=$?
counts=$(tail -n 1 "$work/output")
if [[ ! $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
  echo "broke off: $counts"
  exit 1
fi
passed=${BASH_REMATCH[1]}
failed=${BASH_REMATCH[2]}

# One more test: no process has written a report. Of valgrind's logs only those with an error count.
mapfile -t bad < <(find "$reports" -type f -size +0 | sort)
if [ "$how" = valgrind ]; then
  echo "$(find "$reports" -type f | wc -l) processes ran under valgrind"
  mapfile -t bad < <(find "$reports" -type f -exec grep -lE 'VALGRINDERROR-BEGIN' {} + | sort)
fi
if [ ${#bad[@]} -eq 0 ]; then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
  echo "not ok: ${#bad[@]} processes have a report; all of them in short, then the first ones whole:"
  grep -hE 'ERROR: AddressSanitizer|runtime error|== (Syscall|Invalid|Conditional|Use of|Source)' "${bad[@]}" | sed -E 's/^==[0-9]+==//' | sort | uniq -c
  for report in "${bad[@]:0:5}"; do
    grep -vE '^==[0-9]+== (Memcheck|Copyright|Using|Command)' "$report" | head -n 60
  done
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$status" -eq 0 ]
