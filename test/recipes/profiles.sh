#!/usr/bin/env bash
# The seccomp profile of a container engine, and the one that container/seccomp.py makes of it: what they let pass, and
# what the server does under them.
#
# usage: profiles.sh ROOT DIR
#   ROOT    of the checkout
#   DIR     an empty directory, on a short path; the private server's bin is first in PATH
#
# Last line `N passed, N failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

root=$1
dir=$2
volume=$dir/volume
default=/usr/share/containers/seccomp.json

sql() { fc_cluster_psql "$volume" -c "$1"; }
view() { sql "SELECT state, reason FROM pg_stat_flashcache"; }
under() { /usr/bin/python3 "$here/../lib/with-profile.py" "$@"; }
start_under() { under "$1" pg_ctl --wait --silent --pgdata="$volume/data" --log="$volume/log" start; }
stop() { fc_cluster_stop "$volume"; }
stop_all() { stop >/dev/null 2>&1 || true; }

# Which of io_uring's three calls and cachestat(2) there are.
asks='import ctypes, errno; c = ctypes.CDLL(None, use_errno=True)
print(*(n for n in (425, 426, 427, 451) if c.syscall(n, -1, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.ENOSYS))'

trap stop_all EXIT
mkdir "$volume"
cd "$volume"

"$root/container/seccomp.py" "$default" >"$dir/profile.json"
is "the engine's own profile has neither io_uring nor cachestat" "$(under "$default" python3 -c "$asks")" ""
is "the one that is made of it has what the kernel has" "$(under "$dir/profile.json" python3 -c "$asks")" "$(python3 -c "$asks")"
"$root/container/seccomp.py" - <"$dir/profile.json" >"$dir/again.json"
is "made of itself it stays as it is" "$(cmp "$dir/profile.json" "$dir/again.json" && echo same)" same
check "nothing else differs" python3 - "$default" "$dir/profile.json" <<'END'
import json, sys
old, new = (json.load(open(path)) for path in sys.argv[1:])
assert new["syscalls"].pop()["names"] == ["io_uring_setup", "io_uring_enter", "io_uring_register", "cachestat"]
assert old == new
END
echo '{"rules": []}' >"$dir/wrong.json"
is "what is no profile is refused" "$("$root/container/seccomp.py" "$dir/wrong.json" 2>&1; echo $?)" \
  "$dir/wrong.json is no seccomp profile of a container engine (JSON with defaultAction and syscalls)
3"
is "nor one that is not there" "$("$root/container/seccomp.py" "$dir/none" 2>&1; echo $?)" \
  "$dir/none: No such file or directory; name the profile of your container engine
3"

fc_cluster_init "$volume" "shared_buffers = 4MB" "autovacuum = off" "max_parallel_workers_per_gather = 0"
fc_cluster_cache "$volume" 1024
echo "pg_flashcache.io_timeout = 1000" >>"$volume/data/postgresql.conf"
start_under "$default"
sql "CREATE EXTENSION pg_flashcache" 2>/dev/null
is "under the engine's profile: off, and why" "$(view | sed "s/: .*//")" "off|no wait for the flash device can be bounded without io_uring"
is "under the engine's profile: the server works" "$(sql "SELECT count(*) FROM generate_series(1, 1000)")" 1000
stop
if [ "$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo 0)" = 0 ]; then
  start_under "$dir/profile.json"
  fc_cluster_wait_active "$volume"
  is "under the profile that is made: active" "$(view)" "active|"
  is "under the profile that is made: waits are bounded" "$(sql "SELECT waits_bounded FROM pg_stat_flashcache")" t
  stop
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
