#!/usr/bin/env bash
# Sourced by loop.sh: statements that change data files behind the back of a load, and books that show whether any of
# them was lost or undone.
#
#   fc_torture_prepare DIR                once: tablespaces
#   fc_torture_begin DIR ROUND            a database of its own for a round, since the kill may leave half a database behind
#   fc_torture_ddl DIR ROUND SEED         statements at random, until one fails; prints "begun: WHAT", "done: WHAT". To be run
#                                         in the background, with set -e.
#   fc_torture_look DIR ROUND             checks the books
#   fc_torture_end DIR ROUND              removes the database
#
# The books: every row of `side` says in `val` which row of which generation it is, and `ledger` holds the number of rows
# and the sum of their ids, changed in the same transactions. So a page of another time shows, and so does a lost one.

fc_torture_prepare() {
  local space
  for space in a b c; do
    fc_cluster_psql "$1" -c "CREATE TABLESPACE $space LOCATION ''"
  done
}

# side DIR DATABASE [ARGUMENT...]: psql in another database than the load's
side() {
  fc_cluster_psql "$1" --dbname="$2" "${@:3}"
}

fc_torture_begin() {
  local dir=$1 round=$2
  fc_cluster_psql "$dir" -c "CREATE DATABASE side_$round"
  side "$dir" "side_$round" <<'SQL'
CREATE FUNCTION val(gen int, id int) RETURNS text LANGUAGE sql IMMUTABLE
  RETURN repeat(md5(gen::text || ':' || id::text), 20);
CREATE TABLE side (id int PRIMARY KEY, gen int NOT NULL, val text NOT NULL);
CREATE TABLE ledger (rows bigint NOT NULL, ids bigint NOT NULL);
INSERT INTO ledger VALUES (0, 0);
SQL
}

fc_torture_end() {
  fc_cluster_psql "$1" -c "SET client_min_messages = warning" -c "DROP DATABASE IF EXISTS copy_$2 WITH (FORCE)" \
    -c "DROP DATABASE side_$2 WITH (FORCE)"
}

# look DIR DATABASE: by a sequential scan and by the index
look() {
  local wrong
  wrong=$(side "$1" "$2" 2>&1 <<'SQL' || echo "wrong: psql failed"
SELECT format('wrong: %s rows, %s ids, %s of another content; the ledger has %s rows, %s ids', s.rows, s.ids, s.odd, l.rows, l.ids)
FROM (SELECT count(*) AS rows, coalesce(sum(id), 0) AS ids, count(*) FILTER (WHERE val <> val(gen, id)) AS odd FROM side) s,
  ledger l
WHERE (s.rows, s.ids, s.odd) <> (l.rows, l.ids, 0);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT format('wrong: %s rows, %s ids by the index; the ledger has %s rows, %s ids', s.rows, s.ids, l.rows, l.ids)
FROM (SELECT count(*) AS rows, coalesce(sum(id), 0) AS ids FROM side WHERE id > 0) s, ledger l
WHERE (s.rows, s.ids) <> (l.rows, l.ids);
SQL
  )
  if [ -n "$wrong" ]; then
    echo "$wrong"
    return 1
  fi
}

# The kill may have come while the database was on its way to another tablespace; it is in one of the two.
fc_torture_look() {
  look "$1" "side_$2"
}

grow_sql() {
  cat <<SQL
WITH new AS (
  INSERT INTO side SELECT id, $2, val($2, id)
  FROM (SELECT (SELECT coalesce(max(id), 0) FROM side) + n AS id FROM generate_series(1, $1) n) ids
  RETURNING id)
UPDATE ledger SET rows = rows + (SELECT count(*) FROM new), ids = ids + (SELECT sum(id) FROM new);
SQL
}

# A part of the rows, and of every page.
rewrite() {
  side "$1" "$2" -c "UPDATE side SET gen = $3, val = val($3, id) WHERE id % 7 = $3 % 7"
}

copy_and_drop() {
  fc_cluster_psql "$1" -c "CREATE DATABASE copy_$2 OID = $((70000 + $2)) TEMPLATE side_$2 STRATEGY $3"
  look "$1" "copy_$2"
  push_out "$1"
  fc_cluster_psql "$1" -c "DROP DATABASE copy_$2 WITH (FORCE)"
}

# Reads more pages than shared buffers have, so that all others are evicted, and come into flash.
push_out() {
  fc_cluster_psql "$1" -c "SET enable_seqscan = off" -c "SET enable_bitmapscan = off" \
    -c "SELECT FROM (SELECT sum(abalance) FROM pgbench_accounts WHERE aid > 0) everything"
}

# One statement, or a few that belong together. WHAT is a word of the list in fc_torture_ddl.
run_statement() {
  local dir=$1 round=$2 what=$3
  local db=side_$round space=${spaces[RANDOM % 2]} generation=$((RANDOM % 1000))
  local strategy=${strategies[RANDOM % 2]} ending=${endings[RANDOM % 2]}
  case $what in
    grow) grow_sql $((100 + RANDOM % 300)) "$generation" | side "$dir" "$db" ;;
    rewrite) rewrite "$dir" "$db" "$generation" ;;
    shrink)
      # The tail goes, and VACUUM gives it back to the file system.
      side "$dir" "$db" -c "WITH old AS (
          DELETE FROM side WHERE id > (SELECT max(id) FROM side) - $((100 + RANDOM % 400)) RETURNING id)
        UPDATE ledger SET rows = rows - (SELECT count(*) FROM old), ids = ids - (SELECT coalesce(sum(id), 0) FROM old)" \
        -c "VACUUM side"
      ;;
    empty)
      side "$dir" "$db" <<SQL
BEGIN;
TRUNCATE side;
UPDATE ledger SET rows = 0, ids = 0;
$(grow_sql $((100 + RANDOM % 300)) "$generation")
$ending;
SQL
      ;;
    vacuum_full) side "$dir" "$db" -c "VACUUM FULL side" ;;
    cluster) side "$dir" "$db" -c "CLUSTER side USING side_pkey" ;;
    reindex) side "$dir" "$db" -c "REINDEX TABLE side" ;;
    reindex_concurrently) side "$dir" "$db" -c "REINDEX TABLE CONCURRENTLY side" ;;
    hash) side "$dir" "$db" -c "DROP INDEX IF EXISTS side_hash" -c "CREATE INDEX side_hash ON side USING hash (id)" ;;
    move_table) side "$dir" "$db" -c "ALTER TABLE side SET TABLESPACE $space" -c "ALTER INDEX side_pkey SET TABLESPACE $space" ;;
    move_database)
      # There, another content, and back, where flash may still have the old one.
      look "$dir" "$db"
      push_out "$dir"
      fc_cluster_psql "$dir" -c "ALTER DATABASE $db SET TABLESPACE c"
      rewrite "$dir" "$db" "$generation"
      push_out "$dir"
      fc_cluster_psql "$dir" -c "ALTER DATABASE $db SET TABLESPACE pg_default"
      ;;
    copy_database)
      # A copy of the same OID, hence with the same names of files, but of another content.
      copy_and_drop "$dir" "$round" "$strategy"
      rewrite "$dir" "$db" "$generation"
      copy_and_drop "$dir" "$round" "${strategies[RANDOM % 2]}"
      ;;
    create_and_drop)
      side "$dir" "$db" <<SQL
CREATE TABLE other AS SELECT id, val($generation, id) AS val FROM generate_series(1, 500) id;
CREATE INDEX ON other (id);
DO \$\$ BEGIN ASSERT (SELECT count(*) FROM other WHERE val = val($generation, id)) = 500; END \$\$;
DROP TABLE other;
SQL
      ;;
    not_cached)
      side "$dir" "$db" <<SQL
DROP TABLE IF EXISTS unlogged;
CREATE UNLOGGED TABLE unlogged AS SELECT id, val($generation, id) AS val FROM generate_series(1, 500) id;
CREATE TEMPORARY TABLE temporary AS SELECT * FROM unlogged;
DO \$\$ BEGIN ASSERT (SELECT count(*) FROM temporary JOIN unlogged USING (id, val)) = 500; END \$\$;
SQL
      ;;
    catalog) side "$dir" "$db" -c "VACUUM FULL pg_class" ;;
    pgbench_vacuum) fc_cluster_psql "$dir" -c "VACUUM pgbench_accounts" ;;
    pgbench_cluster) fc_cluster_psql "$dir" -c "CLUSTER pgbench_tellers USING pgbench_tellers_pkey" ;;
    pgbench_full) fc_cluster_psql "$dir" -c "VACUUM FULL pgbench_branches" ;;
    pgbench_reindex) fc_cluster_psql "$dir" -c "REINDEX INDEX CONCURRENTLY pgbench_branches_pkey" ;;
    pgbench_move) fc_cluster_psql "$dir" -c "ALTER TABLE pgbench_history SET TABLESPACE $space" ;;
    *)
      echo "no such statement: $what" >&2
      return 1
      ;;
  esac
}

fc_torture_ddl() {
  local dir=$1 round=$2 what i other
  local spaces=(a b) strategies=(file_copy wal_log) endings=(COMMIT ROLLBACK)
  local deck=(grow grow grow rewrite shrink shrink empty vacuum_full cluster reindex reindex_concurrently hash move_table
    move_database copy_database create_and_drop not_cached catalog
    pgbench_vacuum pgbench_cluster pgbench_full pgbench_reindex pgbench_move)
  RANDOM=$3
  while true; do
    # Shuffled, so that no kind is left out for long.
    for ((i = ${#deck[@]} - 1; i > 0; i--)); do
      other=$((RANDOM % (i + 1)))
      what=${deck[i]}
      deck[i]=${deck[other]}
      deck[other]=$what
    done
    for what in "${deck[@]}"; do
      # Never behind `if` or `||`: there the first failure of several statements would be passed over.
      echo "begun: $what"
      run_statement "$dir" "$round" "$what"
      look "$dir" "side_$round"
      echo "done: $what"
    done
  done
}
