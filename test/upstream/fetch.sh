#!/usr/bin/env bash
# Sourced: PostgreSQL's own source package, for its test suites.
#
#   fc_upstream_fetch CACHE [PLACE]   downloads the source package into CACHE; prints the path of its .dsc file
#   fc_upstream_unpack DSC DIR        leaves src/test/regress, src/test/isolation and the TAP suites of that package in DIR
#
# Debian's binary packages bring pg_regress and isolationtester but not the tests. The source package has them, signed
# by the same archive that the server came from. Most machines have no deb-src lines, and the administrator's apt
# sources are not ours to change: apt gets a private configuration whose source lines are made from the machine's own.
#
# The tests should be those of the very version that is installed. A fresh security upload may be listed before its
# tarball can be downloaded; then the newest older version of the same major serves, because behaviour within a major
# hardly changes and both arms of the comparison run the same tests. Where the lists know the fresh one alone, that older
# version is taken from the archive's pool by its name; its checksum stands here.
#
# The major is FC_PG_MAJOR, or 15. Of 16 and 19 no source package is to be had: the suites of the major before serve. They
# expect other output here and there, in both arms of the comparison. PLACE is where tools/debian.sh has made a folder with
# that server; without it the server is the machine's own.
#
# CACHE keeps one download for each installed version, so a second run needs no network.
#
# Expects tools/debian.sh, but for what is in CACHE.

# The version that the suites have last been run with, and the SHA-256 of its .dsc file, which has those of the other files.
declare -A fc_upstream_known=(
  [15]="15.18-0+deb12u1 d940b57dd029ef0712212164410fcb51854c883f3fc0c3a11486acdfd2ca5947"
  [17]="17.11-0+deb13u1 bf148ae423a982707c3f60672c3a072ef62b701bd9f5df847d9f4b8c9b3e3b18"
  [18]="18.6-3 a4254c4548ebeea683832de193460ee8a9f1271418e884803b44ded1aead1776"
)

# The major whose suites are run.
fc_upstream_major() {
  local major=${FC_PG_MAJOR:-15}
  case $major in
    16 | 19) echo $((major - 1)) ;;
    *) echo "$major" ;;
  esac
}

# The version of the source package that the installed server was built from.
fc_upstream_installed() {
  dpkg-query ${1:+--admindir="$1/root/var/lib/dpkg"} -W -f='${source:Version}\n' "postgresql-${FC_PG_MAJOR:-15}" 2>/dev/null ||
    echo "${FC_PG_MAJOR:-15}"
}

# Writes the machine's own apt sources into PARTS, as sources of source packages.
fc_upstream_sources() {
  local parts=$1 file name
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [ -r "$file" ] || continue
    name=${file##*/}
    case $file in
      *.sources) sed -E 's/^[Tt]ypes:.*/Types: deb-src/' "$file" >"$parts/$name" ;;
      *) # cdrom lines would ask for a disc
        { grep -E '^[[:space:]]*deb[[:space:]]' "$file" | grep -v 'cdrom:' |
          sed -E 's/^[[:space:]]*deb[[:space:]]/deb-src /' || true; } >"$parts/$name.list" ;;
    esac
  done
}

# Versions to try, best first: the installed one, then older ones from new to old, then newer ones.
fc_upstream_candidates() {
  { echo "$1" && cat; } | sort -V -r -u | awk -v installed="$1" '
    $0 == installed { reached = 1 }
    reached { print; next }
    { newer = $0 "\n" newer }
    END { printf "%s", newer }'
}

# The source package of MAJOR that is known to be good, from the pool of the machine's mirror into the current folder, with
# the apt configuration CONF.
fc_upstream_pool() {
  local major=$1 conf=$2 version sum mirror name pool
  read -r version sum <<<"${fc_upstream_known[$major]:-}"
  mirror=$(fc_debian_mirror)
  [ -n "$version" ] && [ -n "$mirror" ] || return 1
  pool=${mirror%/}/pool/main/p/postgresql-$major
  name=postgresql-${major}_$version.dsc
  fc_upstream_file "$conf" "$pool/${name//+/%2b}" "$name" "$sum" || return 1
  while read -r sum _ name; do
    fc_upstream_file "$conf" "$pool/${name//+/%2b}" "$name" "$sum" || return 1
  done < <(sed -n '/^Checksums-Sha256:/,/^[^ ]*:/{ /^ /p }' "postgresql-${major}_$version.dsc")
}

fc_upstream_file() {
  /usr/lib/apt/apt-helper -c "$1" download-file "$2" "$3" "SHA256:$4"
}

fc_upstream_fetch() {
  local cache=$1 server=${2:-}
  local package installed place apt version
  local -a found
  package=postgresql-$(fc_upstream_major)
  installed=$(fc_upstream_installed ${server:+"$server"})
  place=$cache/for-$installed
  found=("$place"/*.dsc)
  if [ -e "${found[0]}" ]; then
    echo "${found[0]}"
    return 0
  fi

  apt=$(mktemp -d) # under TMPDIR, which the caller removes
  mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/download"
  if [ -n "$server" ]; then
    fc_debian_apt "$FC_PG_MAJOR" "$apt" || return 1
  else
    fc_upstream_sources "$apt/parts"
    cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$apt/parts";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
END
  fi
  echo "downloading the source package of $package $installed for its test suites" >&2
  # One third-party source without source packages must not stop us: what counts is whether the package is found.
  apt-get -c "$apt/apt.conf" -qq update >"$apt/log" 2>&1 || true
  local -a candidates
  mapfile -t candidates < <(apt-cache -c "$apt/apt.conf" showsrc --only-source "$package" 2>>"$apt/log" |
    sed -n 's/^Version: //p' | sort -u | fc_upstream_candidates "$installed")
  for version in "${candidates[@]}" pool; do
    if (
      cd "$apt/download"
      if [ "$version" = pool ]; then
        fc_upstream_pool "$(fc_upstream_major)" "$apt/apt.conf"
      else
        apt-get -c "$apt/apt.conf" -qq source --download-only "$package=$version"
      fi
    ) >>"$apt/log" 2>&1; then
      # Moved in one step: a download that is cut short leaves nothing that looks complete.
      mkdir -p "$cache"
      rm -rf "$place"
      mv "$apt/download" "$place"
      rm -rf "$apt"
      found=("$place"/*.dsc)
      [ "$version" = "$installed" ] || echo "source package $installed is not to be had; using $(basename "${found[0]}")" >&2
      echo "${found[0]}"
      return 0
    fi
    rm -rf "$apt/download"
    mkdir "$apt/download"
  done
  cat "$apt/log" >&2
  rm -rf "$apt"
  echo "the source package of $package could not be downloaded (tried: ${candidates[*]}, and ${fc_upstream_known[$(fc_upstream_major)]%% *} in the pool)" >&2
  return 1
}

fc_upstream_unpack() {
  local dsc=$1 target=$2
  local scratch
  scratch=$(mktemp -d)
  # The whole package is unpacked, in a few seconds, so that Debian's patches apply; only the tests are kept.
  if ! dpkg-source --no-copy -x "$dsc" "$scratch/source" >"$scratch/log" 2>&1; then
    cat "$scratch/log" >&2
    rm -rf "$scratch"
    echo "could not unpack $dsc" >&2
    return 1
  fi
  mkdir -p "$target/src/test"
  mv "$scratch/source/src/test/regress" "$scratch/source/src/test/isolation" "$scratch/source/src/test/recovery" "$target/src/test/"
  (cd "$scratch/source" && cp -r --parents src/bin/*/t contrib/*/t "$target/")
  rm -rf "$scratch"
}
