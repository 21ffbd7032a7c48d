#!/bin/sh
# Makes the tree of an extension image, as CloudNativePG mounts it at /extensions/pg_flashcache:
#
#   DIR/lib/pg_flashcache.so
#   DIR/share/extension/pg_flashcache.control, pg_flashcache--*.sql
#
# usage: container/extension-tree.sh DIR [PG_CONFIG]
#   DIR         is made, or is empty
#   PG_CONFIG   of the server that it is for; default: pg_config
#
# The library is for that major version, and for distributions whose C library is as new as this one's. PostgreSQL finds a
# control file in such a tree from 18 on (extension_control_path).
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ -z "$1" ] || [ "${1#-}" != "$1" ]; then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
dir=$1
config=${2:-pg_config}
if ! major=$("$config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p') || [ -z "$major" ]; then
  echo "$config is no pg_config" >&2
  exit 2
fi
if [ -e "$dir" ] && [ -n "$(ls -A "$dir" 2>/dev/null || echo no-directory)" ]; then
  echo "$dir is there, and is not empty" >&2
  exit 2
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
(cd "$root" && cp -R Makefile pg_flashcache.control sql src "$work/source")
find "$work/source" \( -name '*.o' -o -name '*.bc' -o -name '.built-for' \) -delete
make -s -C "$work/source" PG_CONFIG="$config" with_llvm=no >&2
make -s -C "$work/source" PG_CONFIG="$config" with_llvm=no DESTDIR="$work/made" install >&2

mkdir -p "$dir/lib" "$dir/share/extension"
cp "$work/made$("$config" --pkglibdir)/pg_flashcache.so" "$dir/lib/"
cp "$work/made$("$config" --sharedir)/extension/"pg_flashcache* "$dir/share/extension/"
chmod -R a+rX,go-w "$dir"
[ "$major" -ge 18 ] || echo "PostgreSQL $major has no extension_control_path: it does not find $dir/share/extension" >&2
(cd "$dir" && find . -type f | sort)
