#!/usr/bin/env bash
# Proves: the server in a mount namespace whose root is read-only, as in a container, with the file on the root (off, one
#   WARNING) and on a volume; and without io_uring and cachestat(2), taken away by a seccomp filter
#   (lib/without-calls.py). On 18 and later the extension is loaded from a read-only volume, as container/extension-tree.sh
#   makes it.
# Majors: 15 17 18 19
# Rights: root, on a machine that lets root mount
# Minutes: 1

stage() {
  local suites=1
  mkdir "$work/container" "$work/volume"
  {
    (cd "$run" && env PATH="$FC_BINDIR:$PATH" "$tree/test/container/run.sh" "$work/container" postgres) || true
    if [ "$major" -ge 18 ]; then
      suites=2
      (cd "$run" && env PATH="$FC_BINDIR:$PATH" "$tree/test/container/volume.sh" "$work/volume" postgres "$tree") || true
    fi
  } >"$work/container.all" 2>&1
  cat "$work/container.all"
  sum_suites "$work/container.all" "$suites" 0
}
