#!/usr/bin/env bash
# Proves: the protocol, written for spin: the property holds in every state that there is, and a hit goes wrong as soon as
#   one of its rules is broken (model/README.md).
# Majors: 15
# Packages: spin
# Minutes: 5
# Build: no

stage() {
  "$root/test/model/run.sh" "$work/model"
}
