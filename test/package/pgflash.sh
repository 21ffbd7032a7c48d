#!/usr/bin/env bash
# What is in the Debian package pgflash, and what it depends on.
#
# usage: pgflash.sh DEB TREE DIR
#   TREE       the sources
#   DIR        an empty directory
#
# Last line `N passed, N failed`.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/check.sh"

deb=$1
tree=$2
dir=$3
place=usr/lib/python3/dist-packages
version=$(sed -nE 's/^version = "(.*)"$/\1/p' "$tree/pyproject.toml")

# All of pgflash/, scenarios, templates, py.typed and the lab's sources in C among it; the manual page has another place.
wanted() {
  (cd "$tree" && find pgflash -type f -not -path '*/__pycache__/*' -not -name pgflash.1 -printf "./$place/%p\n")
  printf "./$place/pgflash-$version.dist-info/%s\n" METADATA RECORD WHEEL entry_points.txt top_level.txt
  printf './usr/share/doc/pgflash/%s\n' changelog.gz copyright cluster.md.gz doctor.md.gz monitoring.md.gz pilot.md.gz place.md.gz \
    snapshots.md.gz
  (cd "$tree" && find tools/systemd -type f -printf './usr/share/doc/pgflash/systemd/%f\n')
  printf './usr/%s\n' bin/pgflash share/man/man1/pgflash.1.gz
}

# The bounds of pyproject.toml.
dependencies() {
  python3 -c 'import re, sys, tomllib
debian = dict(line.split(";")[0].split() for line in open(sys.argv[2]))
print("python3:any")
for wanted in tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"]:
    name, least, below = re.fullmatch(r"(\w+)(?:\[\w+\])?>=([\d.]+),<([\d.]+)", wanted).groups()
    print(f"{debian[name]} (>= {least})\n{debian[name]} (<< {below})")' "$tree/pyproject.toml" "$tree/debian/py3dist-overrides"
}

field() { dpkg-deb --field "$deb" "$1"; }
file() { dpkg-deb --fsys-tarfile "$deb" | tar -xO "./$1"; }
# As a user calls it; man follows no links here.
command_runs_with() { file usr/bin/pgflash | head -n 1 | tr -d ' '; }
entry_points() { file "$place/pgflash-$version.dist-info/entry_points.txt"; }
man_page() { file usr/share/man/man1/pgflash.1.gz | gunzip; }
members() { dpkg-deb --ctrl-tarfile "$deb" | tar -t | sed 's|^\./||; /^$/d' | sort; }

check "the files that belong there, and no others" \
  diff <(wanted | sort) <(dpkg-deb --contents "$deb" | awk '$1 ~ /^[-l]/ { print $6 }' | sort)
check "for every processor" diff <(echo all) <(field Architecture)
check "the bounds of pyproject.toml" diff <(dependencies | sort) <(field Depends | sed 's/, /\n/g' | sort)
check "Debian's Python runs it" diff <(echo '#!/usr/bin/python3') <(command_runs_with)
check "the entry point" diff <(printf '[console_scripts]\npgflash = pgflash.cli:main\n') <(entry_points)
check "the manual page" diff "$tree/pgflash/pgflash.1" <(man_page)
check "scripts that compile and remove what was compiled" diff <(printf '%s\n' control md5sums postinst prerm) <(members)
if command -v lintian >/dev/null; then
  # The maintainer has no address yet.
  check "lintian" lintian --allow-root --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$deb"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
