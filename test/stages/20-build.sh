#!/usr/bin/env bash
# Proves: the extension builds from nothing with -Werror, with failpoints and as users build it (which then has none),
#   installs, and the server under test is byte for byte the distribution's. `make` builds all objects anew for another
#   server or other flags, and only then.
# Majors: 15 16 17 18 19
# Minutes: 1
# Build: no

stage() {
  fc_private_build "$root" "$tree"
  fc_private_install "$tree"
  [ "$major" -ne 16 ] || fc_wheel_contrib "$tree/test/server/standin"
  cmp "$("$FC_SYSTEM_CONFIG" --bindir)/postgres" "$FC_BINDIR/postgres"
  "$FC_BINDIR/postgres" --version
  "$root/test/lib/built-for.sh" "$root" "$FC_PG_CONFIG" "$work/built-for"
  # What users build: all the same but for the failpoints, of which it must know nothing.
  fc_private_production "$root" "$work/production"
  local library
  for library in "$tree" "$work/production"; do
    nm -D --defined-only "$library/pg_flashcache.so" | awk '$3 ~ /failpoint/ { n++ } END { print n + 0 }'
  done | tee "$work/failpoints"
  fc_private_without_liburing "$work/production" "$work/without-liburing"
  [ "$(tr '\n' ' ' <"$work/failpoints")" = "4 0 " ] # two functions and what describes them
  echo "1 passed, 0 failed"
}
