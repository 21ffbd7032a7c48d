#!/usr/bin/env bash
# Proves: `make installcheck` tests what users build and install, on a running server that has test/installcheck.conf, as
#   whoever packages it would call it; and says what is missing on a server that has not preloaded the library.
# Majors: 15 16 17 18 19
# Minutes: 1
#
# shellcheck disable=SC2016  # expanded by the inner shell

installcheck_as_users() {
  server env PGHOST="$1" PGPORT=5432 PGUSER=postgres make -C "$1/tree" --no-print-directory installcheck PG_CONFIG="$FC_PG_CONFIG" with_llvm=no
}

stage() {
  local directory passed=0 failed=0 status=0 lines
  directory=$(stage_directory installcheck)
  # A server of its own, in which the library of the other stages is not.
  fc_private_server "$work/installed"
  fc_private_install "$work/production"
  [ "$major" -ne 16 ] || fc_wheel_contrib "$tree/test/server/standin"
  cp -a "$work/production" "$directory/tree"
  [ "$(id -u)" -ne 0 ] || chown -R postgres "$directory/tree"
  server bash -euo pipefail -c '. "$0/test/lib/cluster.sh"
    fc_cluster_init "$1"
    fc_cluster_start "$1"' "$tree" "$directory"
  installcheck_as_users "$directory" >"$work/refused" 2>&1 || status=$?
  cat "$work/refused"
  if [ "$status" -ne 0 ] && grep -q 'has preloaded pg_flashcache: see test/installcheck.conf' "$work/refused"; then
    passed=1
  else
    failed=1
    echo "not ok: it says that the library is not preloaded"
  fi

  status=0
  server bash -euo pipefail -c '. "$0/test/lib/cluster.sh"
    fc_cluster_stop "$1"
    { echo "pg_flashcache.file = '\''$1/flash'\''" && echo "include '\''$0/test/installcheck.conf'\''"; } >>"$1/data/postgresql.conf"
    fc_cluster_start "$1"' "$tree" "$directory"
  installcheck_as_users "$directory" >"$work/installcheck" 2>&1 || status=$?
  cat "$work/installcheck"
  cat "$directory"/tree/regression.diffs "$directory"/tree/output_iso/regression.diffs 2>/dev/null || true
  server bash -euo pipefail -c '. "$0/test/lib/cluster.sh"; fc_cluster_stop "$1"' "$tree" "$directory"
  # From 16 on pg_regress speaks TAP.
  lines=$(grep -cE '\.\.\. ok\b|^ok [0-9]' "$work/installcheck" || true)
  passed=$((passed + lines))
  lines=$(grep -cE '\.\.\. FAILED|^not ok [0-9]' "$work/installcheck" || true)
  failed=$((failed + lines))
  [ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
  echo "$passed passed, $failed failed"
}
