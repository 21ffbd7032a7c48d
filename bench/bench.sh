#!/usr/bin/env bash
# Measures what pg_flashcache promises: bench/bench.sh --help. The measurements are in Python (bench/__main__.py), which the
# machine's own can run; where there is none, Debian's is installed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$root/tools/packages.sh"
command -v python3 >/dev/null || fc_need_packages python3
PYTHONPATH=$root exec python3 -B -m bench "$@"
