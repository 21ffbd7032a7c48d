#!/usr/bin/env bash
# Proves: `make dist` makes a tarball of the commit, and the extension builds from it.
# Majors: 15
# Packages: git
# Minutes: 1
# Build: no

stage() {
  local version
  if ! git -C "$root" rev-parse --git-dir >/dev/null; then
    echo "this tree is no checkout: what it builds is what the stage build has shown"
    return
  fi
  version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$root/pg_flashcache.control")
  mkdir "$work/dist"
  (cd "$work/dist" && make -f "$root/Makefile" --no-print-directory dist srcdir="$root" PG_CONFIG="$FC_PG_CONFIG")
  tar -C "$work/dist" -xzf "$work/dist/pg_flashcache-$version.tar.gz"
  fc_private_make "$work/dist/pg_flashcache-$version" ""
  nm -D --defined-only "$work/dist/pg_flashcache-$version/pg_flashcache.so" | grep -w Pg_magic_func
}
