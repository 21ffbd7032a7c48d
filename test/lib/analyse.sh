#!/usr/bin/env bash
# Looks for mistakes in the C files without running them: usage: analyse.sh cppcheck|clang-tidy ROOT PG_CONFIG [FILE...]
#
# FILE is below ROOT; without one, all of src/ and of test/ that is C. Prints each finding; exit status 1 when there is one.
# What is not asked for, and findings that are none, stand with their reasons in ROOT/.clang-tidy and cppcheck.txt.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tool=$1
root=$2
pg_config=$3
shift 3
cd "$root"
files=("$@")
[ ${#files[@]} -gt 0 ] || files=(src/*.c src/*/*.c)

case $tool in
  cppcheck)
    # Without the server's headers, which take it minutes: their macros are named in cppcheck.txt, where it matters.
    cppcheck --quiet --enable=warning,performance,portability --std=c11 --error-exitcode=1 \
      --suppressions-list=<(grep -vE '^(#|$)' "$here/cppcheck.txt") --template='{file}:{line}: {severity}: {id}: {message}' \
      -j 2 -I src "${files[@]}"
    ;;
  clang-tidy)
    # As the Makefile compiles them. The inner shell expands what stands in single quotes.
    # shellcheck disable=SC2016
    printf '%s\0' "${files[@]}" | xargs -0 -P 2 -n 8 bash -c 'includes=$1; shift
      clang-tidy --quiet "$@" -- -std=gnu11 -D_GNU_SOURCE -DFC_USE_LIBURING -DFC_FAILPOINTS -iquote src -I"$includes" 2> >(grep -vE "^[0-9]+ warnings? " >&2)' \
      clang-tidy "$("$pg_config" --includedir-server)"
    ;;
  *)
    sed -n '2,5s/^# //p' "$0" >&2
    exit 2
    ;;
esac
