#!/usr/bin/env bash
# Proves: src/ is formatted as PostgreSQL's pgindent formats it, which knows our types from typedefs.list. What it would
#   change is in the log as a patch: patch -p0 <build/test-logs-18/indent.log
# Majors: 18
# Minutes: 1
# Build: no
#
# One major, since its pgindent and its list of types decide; Debian has it in postgresql-server-dev-N from 17 on.

stage() {
  local server=/usr/lib/postgresql/$major/bin file failed=0 all=0
  mkdir -p "$work/indent"
  cp -r "$root/src" "$work/indent/"
  cat "$root/typedefs.list" "/usr/share/postgresql/$major/typedefs.list" >"$work/indent/typedefs"
  cd "$work/indent" || return
  find src -name '*.[ch]' -print0 | xargs -0 "$server/pgindent" --indent="$server/pg_bsd_indent" --typedefs="$work/indent/typedefs"
  while read -r file; do
    all=$((all + 1))
    diff -u "$root/$file" "$file" --label "$file" --label "$file" || failed=$((failed + 1))
  done < <(find src -name '*.[ch]' | sort)
  echo "$((all - failed)) passed, $failed failed"
}
