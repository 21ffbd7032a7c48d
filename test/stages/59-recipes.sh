#!/usr/bin/env bash
# Proves: rpm/pg_flashcache.spec can be parsed for each major, rpmlint finds no error in it, and rpmbuild makes a package of
#   it, here for Debian's server, with the files that belong there and with io_uring. The entry point of
#   container/Containerfile makes a cluster whose cache becomes active (recipes/entrypoint.sh); compose.yaml, the manifests
#   of Kubernetes and the recipes themselves are read, not run: that takes a container engine and a base image. Under the
#   seccomp profile of an engine the cache is off, and active under the one that container/seccomp.py makes of that.
# Majors: 15
# Packages: cpio golang-github-containers-common rpm rpmlint python3-seccomp python3-yaml
# Minutes: 2

stage() {
  local built=$work/recipes
  mkdir -p "$built"
  chmod 755 "$built"
  {
    recipe_rpm "$built" || echo "0 passed, 1 failed"
    server /usr/bin/python3 "$tree/test/recipes/container.py" "$tree" || true
    server "$tree/test/recipes/entrypoint.sh" "$tree/container/entrypoint.sh" "$(stage_directory recipes)" || true
    server "$tree/test/recipes/profiles.sh" "$tree" "$(stage_directory profiles)" || true
  } 2>&1 | tee "$work/recipes.all"
  sum_suites "$work/recipes.all" 4 0
}

recipe_rpm() {
  local built=$1 spec=$root/rpm/pg_flashcache.spec version system number
  version=$(sed -n 's/^Version: *//p' "$spec")
  system=$(dirname "$(dirname "$FC_SYSTEM_CONFIG")")
  fc_private_copy "$root" "$built/pg_flashcache-$version"
  tar -C "$built" -czf "$built/pg_flashcache-$version.tar.gz" "pg_flashcache-$version"
  rm -r "$built/pg_flashcache-$version"
  for number in 15 16 17 18 19; do
    rpmspec --parse "$spec" --define "pgmajorversion $number" | grep -qx "Name: *pg_flashcache_$number" || return
  done
  rpmlint "$spec" || return
  rpmbuild -bb --nodeps --define "_topdir $built/top" --define "_sourcedir $built" --define "_rpmdir $built" \
    --define "_build_name_fmt built.rpm" --define "pgmajorversion $major" --define "pginstdir $system" \
    --define "pgsharedir $("$FC_SYSTEM_CONFIG" --sharedir)" "$spec" >"$built/log" 2>&1 || { tail -n 40 "$built/log"; return 1; }
  mkdir "$built/unpacked"
  (cd "$built/unpacked" && rpm2cpio "$built/built.rpm" | cpio --quiet -idm)
  # But for documents and what finds debugging symbols.
  diff <(cd "$built/unpacked" && find . -type f -not -path './usr/share/doc/*' -not -path './usr/share/licenses/*' | sort) - <<X || return
.$("$FC_SYSTEM_CONFIG" --pkglibdir)/pg_flashcache.so
.$("$FC_SYSTEM_CONFIG" --sharedir)/extension/pg_flashcache--1.0--1.1.sql
.$("$FC_SYSTEM_CONFIG" --sharedir)/extension/pg_flashcache--1.0.sql
.$("$FC_SYSTEM_CONFIG" --sharedir)/extension/pg_flashcache.control
X
  objdump -p "$built/unpacked$("$FC_SYSTEM_CONFIG" --pkglibdir)/pg_flashcache.so" | grep 'NEEDED.*liburing' || return
  [ -s "$built/unpacked/usr/share/doc/pg_flashcache_$major-$version/docs/settings.md" ] || return
  echo "4 passed, 0 failed"
}
