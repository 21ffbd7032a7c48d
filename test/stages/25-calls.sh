#!/usr/bin/env bash
# Proves: the server's own machine code calls each storage-manager function that is replaced through the table, and nobody
#   calls it directly (lib/check-calls.py, with objdump). The files of src/ call each other in no circles
#   (lib/check-circles.py, with nm). Both first prove on made-up programs that each of their rules can fail.
# Majors: 15 16 17 18 19
# Minutes: 1

stage() {
  python3 -B "$root/test/lib/check-circles.py" --self-test
  python3 -B "$root/test/lib/check-circles.py" "$tree/src"
  "$root/test/lib/check-calls.py" --self-test
  "$root/test/lib/check-calls.py" "$FC_BINDIR/postgres" "$root/src/attach/shape.c"
}
