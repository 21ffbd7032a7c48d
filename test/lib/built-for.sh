#!/usr/bin/env bash
# usage: built-for.sh TREE PG_CONFIG DIR
#
# `make` builds every object anew when it is for another server, with other flags, or liburing has come or gone since
# the last time, and none otherwise. DIR is made, with a copy of TREE. Nothing is compiled: the compiler is a stand-in
# that counts, and makes empty files.
set -euo pipefail
tree=$1
config=$2
dir=$3

mkdir -p "$dir"
tar -C "$tree" -cf - Makefile pg_flashcache.control sql src | tar -C "$dir" --no-same-owner --exclude='*.o' --exclude='*.bc' -xf -
cat >"$dir/cc" <<'X'
#!/bin/sh
# liburing is there as long as the file of that name is
case " $* " in *" -include liburing.h "*) test -e "${0%/*}/liburing"; exit ;; esac
case " $* " in *" -c "*) echo "$*" >>"${0%/*}/compiled" ;; esac
while [ $# -gt 0 ]; do
  [ "$1" != -o ] || : >"$2"
  shift
done
X
cat >"$dir/pg_config" <<X
#!/bin/sh
case \$1 in --version) echo "PostgreSQL 99.0" ;; *) exec "$config" "\$@" ;; esac
X
chmod 755 "$dir/cc" "$dir/pg_config"
all=$(find "$dir/src" -name '*.c' | wc -l)

# built WHAT OBJECTS [ARGUMENT...]: so many are compiled; what make says is in $dir/said
built() {
  local what=$1 expected=$2 got
  shift 2
  : >"$dir/compiled"
  make -C "$dir" --silent --no-print-directory CC="$dir/cc" with_llvm=no "$@" >"$dir/said" 2>&1 || { cat "$dir/said"; exit 1; }
  got=$(wc -l <"$dir/compiled")
  [ "$got" -eq "$expected" ] || { echo "$what: $got objects built, not $expected"; exit 1; }
}

# said WHAT TEXT: what make has printed
said() {
  [ "$(cat "$dir/said")" = "$2" ] || { echo "$1: make says \"$(cat "$dir/said")\", not \"$2\""; exit 1; }
}

without='building without liburing: the cache will be off unless pg_flashcache.io_timeout is 0 (install liburing-dev)'
touch "$dir/liburing"
built 'the first time' "$all" PG_CONFIG="$config"
said 'the first time' ''
built 'again' 0 PG_CONFIG="$config"
built 'for another server' "$all" PG_CONFIG="$dir/pg_config"
built 'for that server again' 0 PG_CONFIG="$dir/pg_config"
built 'for the first server' "$all" PG_CONFIG="$config"
built 'with other flags' "$all" PG_CONFIG="$config" PROFILE=-DFC_OTHER
built 'with the first flags' "$all" PG_CONFIG="$config"
rm "$dir/liburing"
built 'liburing has gone' "$all" PG_CONFIG="$config"
said 'liburing has gone' "$without"
[ "$(grep -c FC_USE_LIBURING "$dir/compiled")" -eq 0 ]
built 'still without liburing' 0 PG_CONFIG="$config"
said 'still without liburing' ''
touch "$dir/liburing"
built 'liburing is there' "$all" PG_CONFIG="$config"
[ "$(grep -c FC_USE_LIBURING "$dir/compiled")" -eq "$all" ]
make -C "$dir" --silent --no-print-directory CC="$dir/cc" PG_CONFIG="$config" with_llvm=no clean
[ ! -e "$dir/.built-for" ]
