#!/usr/bin/env bash
# Sourced: a private copy of the installed PostgreSQL, into which the extension is installed.
#
#   fc_private_server DIR           makes the copy under DIR and sets the variables below
#   fc_private_build TREE COPY      copies the checkout TREE to COPY and builds the extension there, with -Werror and failpoints
#   fc_private_production TREE COPY the same as users build it: without failpoints
#   fc_private_without_liburing BUILT COPY  a copy of that, as if it had been built without liburing
#   fc_private_install COPY         installs the built extension into the private server
#
#   FC_SYSTEM_CONFIG   pg_config of the installation that was copied
#   FC_PG_CONFIG   pg_config of the copy: builds against it end up in it
#   FC_BINDIR      bin of the copy: put it first in PATH and initdb, postgres, psql ... come from there
#   FC_LIBDIR      $libdir of the copy
#   FC_PGXS_TEST   where pg_regress, isolationtester and PostgreSQL::Test::Cluster are
#
# Why: tests and demonstrations must not touch the user's installation, and yet run exactly the binaries that the
# distribution ships. PostgreSQL finds share and lib relative to the place of its own program file, so a copy that
# keeps the relative layout is complete in itself. It resolves symbolic links to find that place; hence programs
# are copied (13 MB) and everything that is only read (libraries, share files, headers) is linked.
#
# FC_DEFINES in the environment has more options for the compiler. PG_CONFIG picks another installation; the default is Debian's PostgreSQL of
# the major version FC_PG_MAJOR, or 15.
#
# shellcheck disable=SC2034  # the variables are for the scripts that source this

fc_private_server() {
  local root=$1
  local system_config=${PG_CONFIG:-/usr/lib/postgresql/${FC_PG_MAJOR:-15}/bin/pg_config}
  if [ ! -x "$system_config" ]; then
    echo "no PostgreSQL installation: $system_config is missing (set PG_CONFIG)" >&2
    return 1
  fi
  local bindir pkglibdir sharedir
  bindir=$("$system_config" --bindir)
  pkglibdir=$("$system_config" --pkglibdir)
  sharedir=$("$system_config" --sharedir)
  FC_SYSTEM_CONFIG=$system_config
  mkdir -p "$root"
  root=$(cd "$root" && pwd -P)
  FC_BINDIR=$root$bindir
  FC_LIBDIR=$root$pkglibdir
  FC_PG_CONFIG=$FC_BINDIR/pg_config
  FC_PGXS_TEST=$pkglibdir/pgxs/src/test

  mkdir -p "$FC_BINDIR" "$FC_LIBDIR" "$root$sharedir/extension"
  cp -p "$bindir"/* "$FC_BINDIR/"
  # lib and extension must take new files, so they are directories of links; the rest is one link a directory.
  fc_private_link "$pkglibdir" "$FC_LIBDIR" bitcode
  fc_private_link "$sharedir" "$root$sharedir" extension
  fc_private_link "$sharedir/extension" "$root$sharedir/extension"
  if [ -d "$pkglibdir/bitcode" ]; then
    mkdir -p "$FC_LIBDIR/bitcode"
    fc_private_link "$pkglibdir/bitcode" "$FC_LIBDIR/bitcode"
  fi
  # An extension that is installed in the system must not be what the tests run.
  rm -rf "$FC_LIBDIR/pg_flashcache.so" "$FC_LIBDIR/bitcode"/pg_flashcache* "$root$sharedir/extension"/pg_flashcache*

  # Headers, message catalogues, and whatever else pg_config names.
  local option directory
  for option in --includedir --libdir --localedir; do
    directory=$("$system_config" "$option")
    if [ -d "$directory" ] && [ ! -e "$root$directory" ]; then
      mkdir -p "$(dirname "$root$directory")"
      ln -s "$directory" "$root$directory"
    fi
  done

  # The programs of a Python wheel look for their libraries beside the folder of the package.
  for directory in "$bindir"/../../../*.libs; do
    [ ! -d "$directory" ] || ln -s "$(cd "$directory" && pwd -P)" "$FC_BINDIR/../../../${directory##*/}"
  done

  # Bitcode for just-in-time compilation is made where its compiler is installed.
  FC_MAKE_OPTIONS=()
  command -v "$(sed -n 's/^CLANG *= *//p' "$pkglibdir/pgxs/src/Makefile.global")" >/dev/null || FC_MAKE_OPTIONS=(with_llvm=no)

  # Proof that the copy looks at itself: a wrong layout would silently use the system's directories.
  local seen
  seen=$("$FC_PG_CONFIG" --sharedir)
  if [ "$seen" != "$root$sharedir" ] || [ "$("$FC_PG_CONFIG" --pkglibdir)" != "$FC_LIBDIR" ]; then
    echo "the private copy of PostgreSQL in $root does not find itself: share is $seen" >&2
    return 1
  fi
}

# Links every entry of FROM into TO, leaving out the names that follow.
fc_private_link() {
  local from=$1 to=$2 entry skip
  local -a entries=()
  shift 2
  for entry in "$from"/*; do
    for skip in "$@"; do
      [ "${entry##*/}" = "$skip" ] && continue 2
    done
    entries+=("$entry")
  done
  ln -sfn -t "$to" "${entries[@]}"
}

# Built in a copy, always from nothing: what is tested is what the sources say, whatever lies in the checkout.
fc_private_copy() {
  mkdir -p "$2"
  tar -C "$1" --exclude=./.git --exclude=./build --exclude='*.o' --exclude='*.so' --exclude='*.bc' --exclude=./.built-for -cf - . |
    tar -C "$2" --no-same-owner -xf -
}

# fc_private_make COPY DEFINES [ARGUMENT...]
fc_private_make() {
  local copy=$1 defines=$2
  shift 2
  make -C "$copy" --silent --no-print-directory -j2 PG_CONFIG="$FC_PG_CONFIG" PROFILE="-Werror $defines" \
    "${FC_MAKE_OPTIONS[@]}" "$@"
}

fc_private_build() {
  fc_private_copy "$1" "$2"
  fc_private_make "$2" "-DFC_FAILPOINTS ${FC_DEFINES:-}"
}

fc_private_production() {
  fc_private_copy "$1" "$2"
  fc_private_make "$2" ""
}

# One object is different.
fc_private_without_liburing() {
  cp -a "$1" "$2"
  rm "$2/src/store/store_uring.o" "$2/pg_flashcache.so"
  fc_private_make "$2" "" "$(fc_private_as_built "$2")" PG_CPPFLAGS="-iquote src"
}

# What was built, into whatever server it is: nothing is built anew for that one.
fc_private_install() {
  fc_private_make "$1" "-DFC_FAILPOINTS ${FC_DEFINES:-}" "$(fc_private_as_built "$1")" install
}

# An argument by which make takes the objects of COPY for those that it would build.
fc_private_as_built() {
  local built
  built=$(<"$1/.built-for")
  echo "BUILT_FOR=${built//\$/\$\$}"
}
