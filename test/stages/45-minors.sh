#!/usr/bin/env bash
# Proves: the library built for one minor release runs in another as well: `regress` in the older one, then one data
#   directory under both in turns, with tables that VACUUM cuts (minors/run.sh). 16.14 and 16.2, whose mdtruncate() takes an
#   argument less; of 15 Debian's security update and the release before it, where apt has two.
# Majors: 15 16
# Minutes: 1

# Unpacks Debian's oldest minor release that apt knows and that is not the machine's, below $1; prints its pg_config, or
# nothing if there is none, or it cannot be downloaded.
older_debian() {
  local package installed version cache=$root/build/servers/15/older
  installed=$(dpkg-query --show --showformat '${Version}' postgresql-15)
  version=$(apt-cache madison postgresql-15 | awk -v here="$installed" '$3 != here { print $3 }' | sort -V | head -n 1)
  [ -n "$version" ] || return 0
  mkdir -p "$cache" "$1"
  for package in postgresql-15 postgresql-client-15 postgresql-server-dev-15; do
    # Where a download is cut short apt leaves nothing under this name.
    compgen -G "$cache/${package}_${version}_*.deb" >/dev/null ||
      (cd "$cache" && apt-get -qq download "$package=$version") >&2 || return 0
    dpkg-deb --extract "$cache/${package}_${version}"_*.deb "$1"
  done
  echo "$1/usr/lib/postgresql/15/bin/pg_config"
}

stage() {
  local config differ status=0
  if [ "$major" -eq 15 ]; then
    config=$(older_debian "$work/old")
    differ='yes yes'
    if [ -z "$config" ]; then
      echo "left out: no other minor release of 15 than this machine's can be had from its apt"
      return
    fi
  else
    config=$(fc_wheel_unpack "$root/build/servers/$major" "$work/old" old)
    differ='no yes'
  fi
  (
    new=$FC_BINDIR
    library=$FC_LIBDIR/pg_flashcache.so
    # shellcheck disable=SC2034  # for fc_private_server
    PG_CONFIG=$config
    fc_private_server "$work/old/pg"
    [ "$("$FC_BINDIR/postgres" --version)" != "$("$new/postgres" --version)" ]
    fc_private_install "$tree"
    [ "$major" -ne 16 ] || fc_wheel_contrib "$tree/test/server/standin"
    cmp "$library" "$FC_LIBDIR/pg_flashcache.so"
    run_own_suite regress sql .sql minors-regress || true
    server "$tree/test/minors/run.sh" "$FC_BINDIR" "$new" "$(stage_directory minors)" "$differ"
  ) 2>&1 | tee "$work/minors" || status=$?
  sum_suites "$work/minors" 2 "$status"
}
