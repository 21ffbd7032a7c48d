#!/usr/bin/env bash
# Shows what pg_flashcache does, on this machine, in about three and a half minutes: ./demo.sh [--dir DIR] [--keep] [--seconds N]
#
# What it does is in bench/demo.py, and said by --help. Here are only the rights and the Python that it needs: root's, by sudo
# where there is one, and Debian's own.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$root/tools/packages.sh"
if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null; then
  [ ! -t 0 ] || sudo -v -p 'password of %u, for installing packages and mounting the emulated disk: ' || true
  ! sudo -n true 2>/dev/null || exec sudo -n --preserve-env=TMPDIR,FC_PG_MAJOR "$root/demo.sh" "$@"
fi
command -v python3 >/dev/null || fc_need_packages python3
PYTHONPATH=$root exec python3 -B -m bench.demo "$@"
