#!/bin/sh
# Makes the cluster if there is none, and becomes the command: `postgres`, with whatever options follow it.
#
#   PGDATA                 the data directory
#   POSTGRES_PASSWORD      of the superuser postgres, or POSTGRES_PASSWORD_FILE; for the first start only
#   FLASHCACHE_FILE        where the cache is: a volume on flash, not that of the data
#   FLASHCACHE_SIZE        how large it is
set -eu

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
    POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
  fi
  if [ -z "${POSTGRES_PASSWORD:-}" ]; then
    echo "set POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE for the first start" >&2
    exit 1
  fi
  # Complete or not there: made under another name, in the same volume.
  making=$PGDATA.new
  rm -rf "$making"
  passwords=$(mktemp)
  printf '%s\n' "$POSTGRES_PASSWORD" >"$passwords"
  initdb --pgdata="$making" --username=postgres --pwfile="$passwords" --auth-local=trust --auth-host=scram-sha-256 --data-checksums
  rm -f "$passwords"
  cat >>"$making/postgresql.conf" <<X
listen_addresses = '*'
shared_preload_libraries = 'pg_flashcache'
X
  echo "host all all all scram-sha-256" >>"$making/pg_hba.conf"
  echo 'CREATE EXTENSION pg_flashcache' | postgres --single -D "$making" -c shared_preload_libraries= postgres >/dev/null
  mv "$making" "$PGDATA"
fi
unset POSTGRES_PASSWORD

# The environment decides at each start; options of the command come later, and win.
if [ "${1:-}" = postgres ]; then
  shift
  set -- postgres -c "pg_flashcache.file=$FLASHCACHE_FILE" -c "pg_flashcache.size=$FLASHCACHE_SIZE" "$@"
fi
exec "$@"
