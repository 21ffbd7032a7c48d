#!/usr/bin/env bash
# Proves: the Debian package builds from debian/ and has exactly the files that belong there; unpacked over a server that
#   has no pg_flashcache it makes one that has, without failpoints, whose cache becomes active (package/run.sh). dpkg
#   installs, upgrades, removes and purges it, and nothing is left behind (package/life.sh). The package pgflash has the files,
#   the entry point and the dependencies that belong there (package/pgflash.sh). In a folder with Debian 13 apt installs it
#   with those, it runs and writes a report, is upgraded, removed and purged (package/pgflash-life.sh).
# Majors: 15
# Packages: debhelper dh-python pybuild-plugin-pyproject python3-all python3-setuptools python3-wheel
# Packages of root: mmdebstrap
# Fetches: trixie
# Rights: any; not root needs user namespaces for dpkg; as root with pgflash on Debian 13
# Minutes: 4
# Build: no

stage() {
  local built=$work/package
  fc_private_copy "$root" "$built/source"
  (
    cd "$built/source" || exit
    export PG_SUPPORTED_VERSIONS=$major DEB_BUILD_OPTIONS=noautodbgsym
    pg_buildext updatecontrol
    # What it needs has been installed, liburing-dev and the headers of this server among it; of the other servers nothing is needed.
    # With Debian's Python, whatever comes before it in PATH.
    PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg-buildpackage --build=binary --no-sign --no-check-builddeps
  )
  fc_private_server "$built/server"
  [ ! -e "$FC_LIBDIR/pg_flashcache.so" ]
  dpkg-deb --extract "$built/postgresql-$major-flashcache"_*.deb "$built/server"
  chmod 755 "$built" "$built/server"
  dpkg-deb --contents "$built/postgresql-$major-flashcache"_*.deb >"$built/contents"
  local -a as_root=()
  local suites=4 life=1 trixie=1
  # dpkg wants to be root, also below a root of its own.
  [ "$(id -u)" -eq 0 ] || as_root=(unshare --map-root-user)
  if ! "${as_root[@]}" true 2>/dev/null; then
    echo "not tested: what dpkg does with the package, since this user may have no user namespace"
    life=0 suites=$((suites - 1))
  fi
  if fc_trixie_can; then
    fc_trixie_make "$root"
  else
    trixie=0 suites=$((suites - 1))
  fi
  mkdir "$built"/{life,pgflash,trixie}
  {
    server "$built/source/test/package/run.sh" "$built/contents" "$major" "$FC_LIBDIR" "$(stage_directory package)" || true
    [ "$life" -eq 0 ] || "${as_root[@]}" "$built/source/test/package/life.sh" "$built/postgresql-$major-flashcache"_*.deb "$built/life" || true
    "$built/source/test/package/pgflash.sh" "$built"/pgflash_*.deb "$root" "$built/pgflash" || true
    [ "$trixie" -eq 0 ] || "$built/source/test/package/pgflash-life.sh" "$built"/pgflash_*.deb "$root" "$root/build/trixie" "$built/trixie" || true
  } 2>&1 | tee "$work/packaged"
  sum_suites "$work/packaged" "$suites" 0
}
