#!/usr/bin/env bash
# Sourced: PostgreSQL built from its source package with the address and undefined-behaviour sanitizers, and assertions.
#
#   fc_sanitized_server CACHE DSC    builds it in CACHE unless it is there; prints the path of its pg_config
#   fc_sanitized_environment LOGS    exports the settings of the sanitizers; reports go to LOGS/report.PID
#
# An extension that is built with that pg_config gets the same flags. Ten minutes on two idle cores, the first time.

# Not optimised: compiled soonest, and nothing undefined is optimised away. The stack of a process must be its own (PostgreSQL
# measures its depth), hence no fake one. What PostgreSQL frees at its exit, it does not free.
fc_sanitized_flags="-O0 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"

fc_sanitized_environment() {
  mkdir -p "$1"
  chmod 1777 "$1"
  export ASAN_OPTIONS="detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:disable_coredump=1:print_stacktrace=1:verify_asan_link_order=0:log_path=$1/report"
  export UBSAN_OPTIONS="print_stacktrace=1:abort_on_error=1:log_path=$1/report"
}

fc_sanitized_server() (
  set -euo pipefail
  mkdir -p "$1"
  cache=$(cd "$1" && pwd -P)
  dsc=$2
  wanted=$(basename "$dsc" | cat - "${BASH_SOURCE[0]}" | sha256sum | cut -c 1-16)
  place=$cache/$wanted
  if [ ! -x "$place/bin/pg_config" ]; then
    echo "building $(basename "$dsc" .dsc) with sanitizers" >&2
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    log=$cache/log
    # PostgreSQL's own tarball without Debian's patches, which fix where the files lie: this one finds its files relative to
    # its programs. What the tests need, no more; moved to its place in one step.
    contrib=(amcheck dblink pageinspect pg_buffercache pg_prewarm pg_visibility pgrowlocks pgstattuple test_decoding)
    if ! {
      mkdir "$scratch/source" && tar -C "$scratch/source" --strip-components=1 -xf "${dsc%/*}"/*.orig.tar.* &&
        cd "$scratch/source" && export ASAN_OPTIONS=detect_leaks=0 &&
        ./configure --quiet --prefix="$place" --enable-cassert --enable-debug --enable-tap-tests \
          --without-readline --without-zlib --without-icu CFLAGS="$fc_sanitized_flags" &&
        make -j "$(nproc)" -s -C src all && make -s -C src install DESTDIR="$scratch/made" &&
        for name in "${contrib[@]}"; do
          make -j "$(nproc)" -s -C "contrib/$name" install DESTDIR="$scratch/made" || exit 1
        done
    } >"$log" 2>&1; then
      tail -n 40 "$log" >&2
      echo "PostgreSQL could not be built with sanitizers: $log" >&2
      return 1
    fi
    rm -rf "$place"
    mv "$scratch/made$place" "$place"
  fi
  echo "$place/bin/pg_config"
)
