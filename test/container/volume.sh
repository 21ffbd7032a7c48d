#!/usr/bin/env bash
# The extension on a read-only volume of its own, as container/extension-tree.sh makes it and an orchestrator mounts it: 18
# and later, which look for control files there. Needs root, who may mount.
#
# usage: volume.sh DIR USER ROOT
#   DIR     an empty directory
#   USER    whom the servers run as
#   ROOT    of the checkout
#
# Last line `N passed, N failed`. Expects the private server's bin first in PATH. What is mounted is seen by nobody else,
# and ends with the script.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

if [ "${FC_CONTAINER:-}" != inside ]; then
  FC_CONTAINER=inside exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "$@"
fi

dir=$1
user=$2
root=$3
volume=$dir/volume

as_user() { runuser -u "$user" -- "$@"; }
# shellcheck disable=SC2016  # expanded by the inner shell
cluster() { as_user env PATH="$PATH" FC_EXTRA_CONF="${FC_EXTRA_CONF:-}" bash -c '. "$0"; "$@"' "$here/../lib/cluster.sh" "$@"; }
sql() { cluster fc_cluster_psql "$volume" -c "$1"; }
view() { sql "SELECT state, reason FROM pg_stat_flashcache"; }
start() { as_user env PATH="$PATH" pg_ctl --wait --silent --pgdata="$volume/data" --log="$volume/log" start; }
stop() { cluster fc_cluster_stop "$volume"; }
stop_all() { stop >/dev/null 2>&1 || true; }

trap stop_all EXIT
mkdir -p "$volume"
chown "$user" "$dir" "$volume"
cd "$volume"

cluster fc_cluster_init "$volume" "shared_buffers = 4MB" "autovacuum = off" "max_parallel_workers_per_gather = 0"
cluster fc_cluster_cache "$volume" 1024
extension=$dir/extensions/pg_flashcache
mkdir -p "$extension"
"$root/container/extension-tree.sh" "$dir/tree" "$(command -v pg_config)" >"$dir/made"
is "the tree has what belongs there" "$(cat "$dir/made")" "./lib/pg_flashcache.so
./share/extension/pg_flashcache--1.0--1.1.sql
./share/extension/pg_flashcache--1.0.sql
./share/extension/pg_flashcache.control"
is "it is not made over another one" "$("$root/container/extension-tree.sh" "$dir/tree" pg_config 2>&1; echo $?)" "$dir/tree is there, and is not empty
2"
mount --bind "$dir/tree" "$extension"
mount -o remount,bind,ro "$extension"
{
  echo "extension_control_path = '$extension/share:\$system'"
  echo "dynamic_library_path = '$extension/lib:\$libdir'"
} >>"$volume/data/postgresql.conf"
start
sql "CREATE EXTENSION pg_flashcache"
cluster fc_cluster_wait_active "$volume"
is "from a volume: active" "$(view)" "active|"
is "from a volume: the library is the one there" \
  "$(grep -o '[^ ]*/pg_flashcache.so' "/proc/$(head -n 1 "$volume/data/postmaster.pid")/maps" | sort -u)" "$extension/lib/pg_flashcache.so"
sql "CREATE DATABASE other"
is "from a volume: CREATE EXTENSION in another database" \
  "$(cluster fc_cluster_psql "$volume" -d other -c "CREATE EXTENSION pg_flashcache" -c "SELECT state FROM pg_stat_flashcache")" active
stop

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
