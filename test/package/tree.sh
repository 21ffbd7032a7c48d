#!/usr/bin/env bash
# Sourced by the tests of packages.
#
#   tree ROOT                    all files and folders, with owner, rights and content, but for dpkg's and apt's own, caches and
#                                logs; of what Python compiled, the content is its own
#   make_former DEB DIR FILE...  DIR/former.deb: DEB with a lower version, in which each FILE is another, or is there at all

tree() {
  (
    cd "$1" || exit
    local -a ours=(. -regextype posix-extended -regex './(dev|proc|sys|var/(cache|log|lib/(apt|dpkg)))' -prune -o)
    find "${ours[@]}" -printf '%p %y %u %m %l\n'
    find "${ours[@]}" -type f -not -name '*.pyc' -exec md5sum {} +
  ) | sort
}

make_former() {
  local deb=$1 dir=$2 file
  dpkg-deb --raw-extract "$deb" "$dir/former"
  sed -i 's/^Version: .*/Version: 0.9-1/' "$dir/former/DEBIAN/control"
  for file in "${@:3}"; do
    echo "# another file" >"$dir/former/$file"
  done
  (cd "$dir/former" && find . -type f -not -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  dpkg-deb --root-owner-group --build "$dir/former" "$dir/former.deb"
}
