#!/usr/bin/env bash
# Proves: the server in a mount namespace whose root is read-only, as in a container, with the file on the root (off, one
#   WARNING) and on a volume; and without io_uring and cachestat(2), taken away by a seccomp filter
#   (lib/without-calls.py).
# Majors: 15 17 18 19
# Rights: root, on a machine that lets root mount
# Minutes: 1

stage() {
  mkdir "$work/container"
  (cd "$run" && env PATH="$FC_BINDIR:$PATH" "$tree/test/container/run.sh" "$work/container" postgres)
}
