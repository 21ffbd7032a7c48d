#!/usr/bin/env bash
# Proves: the server's own machine code calls each storage-manager function that is replaced through the table, and nobody
#   calls it directly (lib/check-calls.py, with objdump).
# Majors: 15 16 17 18 19
# Minutes: 1

stage() {
  "$root/test/lib/check-calls.py" --self-test
  "$root/test/lib/check-calls.py" "$FC_BINDIR/postgres" "$root/src/attach/shape.c"
}
