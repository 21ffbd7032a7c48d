#!/usr/bin/env bash
# The life of the package pgflash on Debian 13: apt installs it with what it needs, it runs, is upgraded, removed and purged,
# and nothing is left behind. Needs root, who may mount.
#
# usage: pgflash-life.sh DEB TREE PLACE DIR
#   TREE       the sources
#   PLACE      the folder with Debian 13 (trixie.sh), over which changes are mounted
#   DIR        an empty directory
#
# Last line `N passed, N failed`. There is no network: what the package needs is installed already, or it is not installed. The package before it is this one with a lower
# version and a module that the new one no longer has.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib/check.sh"
. "$here/tree.sh"

if [ "${FC_TRIXIE:-}" != inside ]; then
  FC_TRIXIE=inside exec unshare --mount --pid --ipc --net --fork --kill-child --propagation private "${BASH_SOURCE[0]}" "$@"
fi

deb=$1
tree=$2
place=$3
dir=$4
root=$dir/root
modules=usr/lib/python3/dist-packages/pgflash

within() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }
as_user() { within setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }
apt() { within apt-get -y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io "$@"; }
state() { dpkg-query --admindir="$root/var/lib/dpkg" --show --showformat '${db:Status-Status} ${Version}\n' pgflash 2>/dev/null || echo "not known"; }
is_in_state() { diff <(echo "$1") <(state); }
is_as() { diff "$dir/$1" <(tree "$root"); }
files_as_listed() { diff /dev/null <(within dpkg --verify pgflash); }
former() { find "$root/$modules" -name 'former*' -printf '%P\n' | sort; }
compiled() { echo "former.py" && echo "__pycache__/former.cpython-$python.pyc"; }

# Each module with what it imports, of which the command itself loads most only when they are needed.
all_modules() {
  as_user python3 -c 'import importlib, pkgutil, pgflash
names = [module.name for module in pkgutil.walk_packages(pgflash.__path__, "pgflash.") if not module.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
print(len(names), "modules")
assert len(names) > 40'
}

scenarios() {
  diff <(cd "$tree/pgflash/pilot/scenarios" && printf '%s\n' *.toml | sed 's/\.toml$//') \
    <(as_user pgflash pilot list --json /tmp | python3 -c 'import json, sys
print(*sorted(scenario["name"] for scenario in json.load(sys.stdin)["scenarios"]), sep="\n")')
}

# From the recorded study, with every library but those that reach a server; the page has Plotly's in it, and charts.
report() {
  as_user cp -r /tmp/recorded /tmp/study
  as_user pgflash pilot report /tmp/study --out /tmp/report
  grep -q 'plotly.js v[0-9]' "$root/tmp/report/report.html"
  grep -q '<script type="application/json"' "$root/tmp/report/report.html"
  [ -s "$root/tmp/report/report.md" ]
}

mkdir "$root" "$dir"/{changes,work}
mount -t overlay -o "lowerdir=$place,upperdir=$dir/changes,workdir=$dir/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
cp "$deb" "$root/tmp/pgflash.deb"
make_former "$deb" "$dir" "$modules/former.py" >/dev/null
cp "$dir/former.deb" "$root/tmp/"
cp -r "$tree/test/pilot/data/recorded" "$root/tmp/"
chmod -R a+rX "$root/tmp"
version=$(dpkg-deb --field "$deb" Version)

python=$(within python3 -c 'import sys; print("%d%d" % sys.version_info[:2])')
tree "$root" >"$dir/before"
check "installs" apt install /tmp/pgflash.deb
check "is installed" is_in_state "installed $version"
check "its files are there" files_as_listed
tree "$root" >"$dir/installed"
check "pgflash --version" diff <(sed -nE 's/^version = "(.*)"$/pgflash \1/p' "$tree/pyproject.toml") <(as_user pgflash --version)
check "pgflash --help" grep -q pilot <(as_user pgflash --help)
check "the manual page is found" diff <(echo /usr/share/man/man1/pgflash.1.gz) <(as_user man -w pgflash)
check "all modules with what they import" all_modules
check "the scenarios" scenarios
check "a report" report
rm -rf "$root"/tmp/{study,report}
check "a run by root" within pgflash pilot list --json /tmp
check "nothing is written beside it" is_as installed
check "again over itself" apt install --reinstall /tmp/pgflash.deb
check "as before" is_as installed
check "removed" apt remove pgflash
check "nothing is left when removed" is_as before
check "installs after it was removed" apt install /tmp/pgflash.deb
check "purged" apt purge pgflash
check "nothing is left when purged" is_as before
check "dpkg has forgotten it" is_in_state "not known"

check "the former version" apt install /tmp/former.deb
check "with its own module" diff <(compiled | sort) <(former)
check "is upgraded" apt install /tmp/pgflash.deb
check "to this version" is_in_state "installed $version"
check "nothing of the former one is left" is_as installed
check "pgflash --version after the upgrade" diff <(sed -nE 's/^version = "(.*)"$/pgflash \1/p' "$tree/pyproject.toml") <(as_user pgflash --version)
check "purged after the upgrade" apt purge pgflash
check "nothing is left after the upgrade" is_as before

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
