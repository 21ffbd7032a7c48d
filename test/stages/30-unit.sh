#!/usr/bin/env bash
# Proves: the modules that need no server do what their headers say, compiled without one.
# Majors: 15 16 17 18 19
# Minutes: 1

stage() {
  make -C "$tree/test/unit" --no-print-directory check
}
