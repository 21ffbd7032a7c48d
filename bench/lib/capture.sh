#!/usr/bin/env bash
# How many of the pages that the clock evicts clean does the writer get? Counters could flatter; so a table is
# read once, page by page in random order, into a cache with room for all of it. Every page is then evicted
# once or still in shared_buffers, and the two inventories, pg_flashcache_pages and pg_buffercache, say which
# of the evicted ones were captured. The table comes out of the page cache, which the probe would prefer to
# filling: it is off.

figure_capture() {
  local reps rep rate pages=131072 batch=10 clients=4 t0 t1 evicted captured
  local -a rates=(10000 0)
  reps=$(bench_reps 3)
  [ "$BENCH_STOCK" = no ] || { bench_say "there is no arm without the extension"; return 0; }
  lab_disk 0 plain
  lab_init a
  lab_start a shared_buffers=256MB fsync=off
  lab_sql a postgres "CREATE DATABASE bench"
  bench_pages a bench "$pages"
  lab_psql a -d bench -q -v ON_ERROR_STOP=1 -f - <<X
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE batches AS SELECT ((row_number() OVER (ORDER BY random()) - 1) / $batch)::int AS batch, format('(%s,1)', id)::tid AS tid
      FROM generate_series(0, $pages - 1) id;
    CREATE INDEX ON batches (batch);
    VACUUM (FREEZE, ANALYZE) batches;
X
  lab_stop a
  cat >"$LAB_DIR/batch.sql" <<X
\set mine :n * $clients + :client_id
SELECT count(*) FROM batches JOIN pages ON pages.ctid = batches.tid WHERE batch = :mine;
\set n :n + 1
X
  for ((rep = 1; rep <= reps; rep++)); do
    for rate in "${rates[@]}"; do
      local -a throttle=()
      [ "$rate" -eq 0 ] || throttle=(-R $((rate / batch)))
      bench_start_flash a bench 1500MB shared_buffers=128MB pg_flashcache.admission=all pg_flashcache.os_cache_probe=off \
        enable_hashjoin=off enable_mergejoin=off plan_cache_mode=force_generic_plan
      lab_psql a -d bench -Atq -c "EXPLAIN SELECT count(*) FROM batches JOIN pages ON pages.ctid = batches.tid WHERE batch = 1" |
        bench_expect_tid_scan
      bench_counters a bench >"$LAB_DIR/before"
      t0=$(date +%s.%N)
      lab_run lab_pgbench a -n -M prepared -c "$clients" -j 2 -t $((pages / batch / clients)) "${throttle[@]}" \
        -D n=0 -f "$LAB_DIR/batch.sql" bench >"$LAB_DIR/log/pgbench" 2>&1 || { cat "$LAB_DIR/log/pgbench" >&2; return 1; }
      t1=$(date +%s.%N)
      bench_counters a bench >"$LAB_DIR/after"
      read -r evicted captured < <(lab_sql a bench "
        SELECT count(*), count(*) FILTER (WHERE b IN (
            SELECT relblocknumber FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('pages')))
        FROM generate_series(0, $pages - 1) b
        WHERE b NOT IN (SELECT relblocknumber FROM pg_buffercache
          WHERE relfilenode = pg_relation_filenode('pages') AND relforknumber = 0 AND relblocknumber IS NOT NULL)")
      bench_record capture "$([ "$rate" -eq 0 ] && echo unlimited || echo "$rate/s")" "$rep" \
        "evictions_per_s=$(awk -v n="$evicted" -v a="$t0" -v b="$t1" -v p="$pages" 'BEGIN { printf "%.0f", p / (b - a) }')" \
        "evicted=$evicted" "captured=$captured" "ratio=$(awk -v c="$captured" -v e="$evicted" 'BEGIN { printf "%.4f", c / e }')" \
        "$(capture_counter inserts)" "$(capture_counter insert_skip_exists)" "$(capture_counter insert_skip_overloaded)" \
        "$(capture_counter insert_skip_pinned)" "$(capture_counter insert_skip_not_current)" "$(capture_counter insert_skip_not_useful)"
      lab_stop a
    done
  done
  bench_table capture evictions_per_s evicted captured ratio -- 10000/s unlimited
  bench_result capture "captured / evicted clean, at $(bench_median capture 10000/s evictions_per_s) evictions a second" \
    "$(bench_median capture 10000/s ratio)" "at least 0.95"
}

capture_counter() { echo "$1=$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" "$1")"; }
