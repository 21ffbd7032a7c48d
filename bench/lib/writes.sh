#!/usr/bin/env bash
# Wear: how many pages are written to flash for a buffer-pool miss, in steady state, under a skewed load of 95%
# reads and 5% updates; flash is 20% of the database, shared_buffers 5%. The question is one of policy, not of
# speed: it runs on the machine's own disk, with the page-cache probe off (the page cache holds everything here).

figure_writes() {
  local reps seconds scale rep arm written misses
  local -a arms=(all auto) order
  reps=$(bench_reps 3) seconds=$(bench_seconds 30) scale=$(bench_scale 60)
  [ "$BENCH_STOCK" = no ] || { bench_say "there is no arm without the extension"; return 0; }
  lab_disk 0 plain
  lab_init a
  lab_start a shared_buffers=256MB fsync=off
  lab_run lab_load a bench "$scale"
  lab_stop a
  # shellcheck disable=SC2016
  echo '\set aid random_gaussian(1, 100000 * :scale, 5)
    UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;' >"$LAB_DIR/update.sql"
  local -a load=(-M prepared -c 8 -j 2 -s "$scale" -f "$LAB_ROOT/lab/gaussian.sql@19" -f "$LAB_DIR/update.sql@1" bench)
  for ((rep = 1; rep <= reps; rep++)); do
    mapfile -t order < <(bench_rotate "$rep" "${arms[@]}")
    for arm in "${order[@]}"; do
      bench_start_flash a bench $((scale * 3))MB "shared_buffers=$((scale * 3 / 4))MB" "pg_flashcache.admission=$arm" \
        pg_flashcache.os_cache_probe=off synchronous_commit=off
      lab_warm a bench 120 2 bench_warm_slice a "${load[@]}"
      # the ghost list learns more slowly than the cache fills: as long again as is measured
      bench_pgbench a -T "$seconds" "${load[@]}" >/dev/null
      bench_counters a bench >"$LAB_DIR/before"
      bench_pgbench a -T "$seconds" "${load[@]}" >/dev/null
      bench_counters a bench >"$LAB_DIR/after"
      written=$(($(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" write_bytes) / 8192))
      misses=$(($(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" hits) + $(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" misses)))
      bench_record writes "$arm" "$rep" "flash_pages_written=$written" "buffer_pool_misses=$misses" \
        "writes_per_miss=$(awk -v w="$written" -v m="$misses" 'BEGIN { printf "%.4f", w / m }')" \
        "hit_ratio=$(bench_hit_ratio "$LAB_DIR/before" "$LAB_DIR/after")" \
        "used=$(lab_sql a bench 'SELECT round(100.0 * used / slots, 1) FROM pg_stat_flashcache')"
      lab_stop a
    done
  done
  bench_table writes writes_per_miss hit_ratio flash_pages_written buffer_pool_misses -- "${arms[@]}"
  bench_result writes "flash page writes / buffer-pool misses, auto" "$(bench_median writes auto writes_per_miss)" "at most 0.35" \
    "hit ratio auto $(bench_median writes auto hit_ratio), all $(bench_median writes all hit_ratio)"
}
