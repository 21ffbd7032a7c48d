#!/usr/bin/env bash
# Builds the documentation as a site, build/site/index.html, from the Markdown files; a link that leads nowhere is an error.
# Changes nothing else. Needs Python 3.11 or newer with venv (Debian: python3-venv) and, the first time, the network.
#
# usage: tools/docs.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/tools/python.sh"

fc_python_make "$root" docs
rm -rf "$root/build/docs"
mkdir -p "$root/build/docs"
# A copy in the same folders, and with it what the files link to.
(cd "$root" && find . \( -name build -o -name '.*' ! -name . -o -name node_modules \) -prune -o -name '*.md' -print0 |
  xargs -0 cp --parents -t build/docs LICENSE test/windows.txt)
cd "$root"
# It is quiet only when all is well: with --quiet it would not count warnings, so that --strict would find none.
if ! NO_MKDOCS_2_WARNING=1 "$(fc_python "$root" docs)/mkdocs" build --strict --config-file mkdocs.yml >build/docs.log 2>&1; then
  cat build/docs.log >&2
  exit 1
fi
