#!/usr/bin/env bash
# The life of the Debian package on a machine: installed, upgraded, removed, purged, and nothing is left behind.
#
# usage: life.sh DEB DIR      as root, or as root of a user namespace; DIR is empty
#
# dpkg works on a root of its own below DIR, in which the packages that ours depends on are registered with the versions of
# this machine. There is no earlier release yet: the package before it is this one with a lower version, another library and
# a file that the new one no longer has.
#
# Last line `N passed, N failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/check.sh"
. "$here/tree.sh"

deb=$1
dir=$2
root=$dir/root
package=$(dpkg-deb --field "$deb" Package)
major=${package#postgresql-}
major=${major%-flashcache}
library=usr/lib/postgresql/$major/lib/pg_flashcache.so
former=usr/share/postgresql/$major/extension/pg_flashcache--0.9.sql

pkg() { dpkg --root="$root" --force-unsafe-io "$@"; }

# The dependencies, as dpkg knows them here.
register() {
  local name
  mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
  # A dependency is a name with conditions; of alternatives, the first that is here.
  dpkg-deb --field "$deb" Depends | tr ',' '\n' | while IFS='|' read -r -a names; do
    for name in "${names[@]}"; do
      name=$(sed 's/(.*//; s/:any//; s/ //g' <<<"$name")
      dpkg-query --show --showformat '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || continue
      dpkg-query --show --showformat 'Package: ${Package}\nStatus: ${Status}\nArchitecture: ${Architecture}\nMulti-Arch: ${Multi-Arch}\nVersion: ${Version}\nProvides: ${Provides}\nMaintainer: x\nDescription: x\n\n' "$name" |
        sed -E '/^(Multi-Arch|Provides): $/d'
      break
    done
  done >"$root/var/lib/dpkg/status"
  touch "$root/var/lib/dpkg/available"
}

state() { dpkg-query --admindir="$root/var/lib/dpkg" --show --showformat '${db:Status-Status} ${Version}\n' "$package" 2>/dev/null || echo "not known"; }
is_as() { diff "$dir/$1" <(tree "$root"); }
is_in_state() { diff <(echo "$1") <(state); }
members() { dpkg-deb --ctrl-tarfile "$deb" | tar -t | sed 's|^\./||; /^$/d' | sort; }
files_as_listed() { pkg --verify "$package" | tee "$dir/verified" && [ ! -s "$dir/verified" ]; }

mkdir -p "$root"
register
make_former "$deb" "$dir" "$library" "$former" >/dev/null
version=$(dpkg-deb --field "$deb" Version)
tree "$root" >"$dir/before"

# It restarts no server and has no settings of its own: whoever wants it names it in shared_preload_libraries.
check "no scripts, no configuration" diff <(printf '%s\n' control md5sums) <(members)
check "installs" pkg --install "$deb"
check "is installed" is_in_state "installed $version"
check "its files are there" files_as_listed
tree "$root" >"$dir/installed"
check "again over itself" pkg --install "$deb"
check "as before" is_as installed
check "removed" pkg --remove "$package"
check "nothing is left when removed" is_as before
check "installs after it was removed" pkg --install "$deb"
check "purged" pkg --purge "$package"
check "nothing is left when purged" is_as before
check "dpkg has forgotten it" is_in_state "not known"

check "the former version" pkg --install "$dir/former.deb"
check "with its own file" grep -q another "$root/$former"
check "is upgraded" pkg --install "$deb"
check "to this version" is_in_state "installed $version"
check "nothing of the former one is left" is_as installed
check "purged after the upgrade" pkg --purge "$package"
check "nothing is left after the upgrade" is_as before

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
