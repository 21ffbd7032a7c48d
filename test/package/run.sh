#!/usr/bin/env bash
# What is in the Debian package, and that it works in a server.
#
# usage: run.sh CONTENTS MAJOR LIBDIR DIR
#   CONTENTS   what dpkg-deb --contents prints of it
#   LIBDIR     of the server into which it was unpacked, whose bin is first in PATH
#   DIR        an empty directory, on a short path
#
# Last line `N passed, N failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/cluster.sh"
. "$here/../lib/check.sh"

contents=$1
major=$2
libdir=$3
dir=$4

trap 'fc_cluster_stop "$dir" immediate >/dev/null 2>&1 || true' EXIT

# Files but for bitcode, which there is where its compiler is installed, and documents.
wanted() {
  cat <<X
./usr/lib/postgresql/$major/lib/pg_flashcache.so
./usr/share/postgresql/$major/extension/pg_flashcache--1.0--1.1.sql
./usr/share/postgresql/$major/extension/pg_flashcache--1.0.sql
./usr/share/postgresql/$major/extension/pg_flashcache.control
X
}

files() { awk '$1 ~ /^-/ { print $6 }' "$contents" | grep -vE '/(bitcode|doc)/' | sort; }

documents() {
  local place=/usr/share/doc/postgresql-$major-flashcache file
  for file in copyright changelog README.md $(cd "$here/../.." && echo docs/*.md); do
    grep -qE " \.$place/$file(\.gz)?\$" "$contents" || echo "$file is missing"
  done >"$dir/missing"
  diff /dev/null "$dir/missing"
}

as_users_have_it() { ! nm -D --defined-only "$libdir/pg_flashcache.so" | grep failpoint; }

check "the files that belong there, and no others" diff <(wanted) <(files)
check "documents" documents
check "no failpoints" as_users_have_it
fc_cluster_init "$dir"
fc_cluster_cache "$dir" 64
# Where io_uring is forbidden the cache would be off, and this is not about that.
echo "pg_flashcache.io_timeout = 0" >>"$dir/data/postgresql.conf"
fc_cluster_start "$dir"
check "CREATE EXTENSION" fc_cluster_psql "$dir" -c 'CREATE EXTENSION pg_flashcache'
check "the cache becomes active" fc_cluster_wait_active "$dir"
# The file of a test lies beside its data directory, of which there is one.
grep WARNING "$dir/log" | grep -v 'on the same file system as the data directory' >"$dir/warnings" || true
check "without a warning" diff /dev/null "$dir/warnings"
fc_cluster_stop "$dir"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
