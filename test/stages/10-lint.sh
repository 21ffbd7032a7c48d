#!/usr/bin/env bash
# Proves: every shell script passes shellcheck, every Python and Perl file compiles, cppcheck and clang-tidy find nothing
#   in src/, pgflash and bench pass ruff and `mypy --strict`. The include graph of src/ goes down only (lib/check-includes.py), and
#   each gap between two numbered steps of the protocol has a pause point and a test in windows.txt
#   (lib/check-windows.py). META.json agrees with the tree (lib/check-meta.py), typedefs.list with src/
#   (lib/check-typedefs.py), and the tables of settings with src/settings.c (lib/check-settings.py). These five first prove
#   on made-up trees that each of their rules can fail. The documentation builds as a site without a warning, so links in
#   *.md lead somewhere (tools/docs.sh), and groff has none for the manual page of pgflash.
# Majors: 15
# Packages: clang-tidy cppcheck man-db shellcheck python3-venv
# Fetches: python docs
# Minutes: 2
# Build: no

lint_passed=0
lint_failed=0

# lint_check WHAT COMMAND...: one check
lint_check() {
  local what=$1
  shift
  if "$@"; then
    lint_passed=$((lint_passed + 1))
  else
    lint_failed=$((lint_failed + 1))
    echo "not ok: $what"
  fi
}

# The files of the project below the current directory. A tree without git (a release) is taken whole.
list_files() {
  if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard | while read -r file; do
      [ ! -f "$file" ] || echo "$file"
    done
  else
    find . -type f -not -path './build/*' -not -path './.git/*'
  fi
}

# A manual page for which groff has no warning.
man_page() {
  man --warnings --encoding=UTF-8 --local-file "$1" 2>&1 >"$work/page" | tee "$work/warnings"
  [ -s "$work/page" ] && [ ! -s "$work/warnings" ]
}

stage() {
  local file python
  cd "$root" || return
  while read -r file; do
    lint_check "shellcheck $file" shellcheck --external-sources "$file"
  done < <(list_files | while read -r file; do
    head -n 1 "$file" | grep -qE '^#!.*\b(ba)?sh$' && echo "$file"
  done)
  while read -r file; do
    lint_check "python3 $file" python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$file"
  done < <(list_files | grep '\.py$')
  while read -r file; do
    lint_check "perl -c $file" env PERL5LIB="$FC_PGXS_TEST/perl:$root/test/lib" perl -c "$file"
  done < <(list_files | grep -E '\.(pl|pm)$')
  fc_python_make "$root"
  python=$(fc_python "$root")
  for file in test/lib/check-{includes,windows,meta,typedefs,settings}.py test/upstream/{compare,end_copy}.py; do
    lint_check "$file, self-test" "$python/python" -B "$file" --self-test
  done
  lint_check "the run over all servers" test/server/check-all.sh
  lint_check "include graph" test/lib/check-includes.py src
  lint_check "windows of the protocol" test/lib/check-windows.py .
  lint_check "META.json" "$python/python" -B test/lib/check-meta.py .
  lint_check "typedefs.list" test/lib/check-typedefs.py .
  lint_check "tables of settings" test/lib/check-settings.py .
  lint_check "man page" man_page pgflash/pgflash.1
  lint_check "cppcheck" test/lib/analyse.sh cppcheck . "$FC_PG_CONFIG"
  lint_check "clang-tidy" test/lib/analyse.sh clang-tidy . "$FC_PG_CONFIG"
  lint_check "ruff check" "$python/ruff" check --quiet --no-cache pgflash bench test/pilot test/snapshots test/monitoring test/doctor test/place test/cluster
  lint_check "ruff format" "$python/ruff" format --check --quiet --no-cache pgflash bench test/pilot test/snapshots test/monitoring test/doctor test/place test/cluster
  lint_check "documentation and its links" tools/docs.sh
  lint_check "mypy" "$python/mypy" --no-error-summary --cache-dir="$work/mypy"
  echo "$lint_passed passed, $lint_failed failed"
}
