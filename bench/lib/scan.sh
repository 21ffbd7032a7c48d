#!/usr/bin/env bash
# A sequential scan of a table half of whose pages, picked at random, are in flash: the disk streams, and a
# cache that takes every other page elsewhere breaks the stream.

figure_scan() {
  local reps scale rep arm server=without share seconds pass
  reps=$(bench_reps 3) scale=$(bench_scale 80)
  local -a arms=(without probe no_probe) order
  [ "$BENCH_STOCK" = no ] || arms=(without)
  lab_disk $((scale * 15 * 5 / 2 + 1500))
  bench_say "disk: $(lab_disk_words)"
  lab_init without
  lab_start without shared_buffers=256MB fsync=off
  lab_run lab_load without bench "$scale"
  lab_sql without bench "CREATE EXTENSION pg_prewarm"
  lab_stop without
  lab_clone without loaded
  lab_start without shared_buffers=32MB
  if [ "$BENCH_STOCK" = no ]; then
    bench_start_flash loaded bench $((scale * 15))MB shared_buffers=32MB
    # what the cache is filled from here is in the page cache, which the probe would prefer to filling
    bench_set_probe loaded bench off
    for ((pass = 1; pass <= 6; pass++)); do
      scan_read_half loaded
      share=$(scan_share loaded)
      bench_say "half of the table's pages read, pass $pass: $share of the table in flash"
      awk -v share="$share" 'BEGIN { exit share < 0.49 }' && break
    done
  fi
  for ((rep = 1; rep <= reps; rep++)); do
    mapfile -t order < <(bench_rotate "$rep" "${arms[@]}")
    for arm in "${order[@]}"; do
      server=loaded share=0
      case $arm in
        without) server=without ;;
        probe) bench_set_probe loaded bench auto ;;
        no_probe) bench_set_probe loaded bench off ;;
      esac
      # another relation goes through the buffer pool: no page of the table is left there
      lab_sql "$server" bench "SELECT pg_prewarm('pgbench_accounts_pkey')" >/dev/null
      lab_drop_cache "$server"
      [ "$arm" = without ] || share=$(scan_share loaded)
      [ "$arm" = without ] || bench_counters loaded bench >"$LAB_DIR/before"
      lab_model slow
      seconds=$(lab_psql "$server" -d bench -Atq -c '\timing on' -c 'SELECT sum(abalance) FROM pgbench_accounts' |
        awk '/^Time:/ { print $2 / 1000 }')
      lab_model fast
      local -a more=()
      if [ "$arm" != without ]; then
        bench_counters loaded bench >"$LAB_DIR/after"
        more=("hits=$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" hits)"
          "os_cache_hits=$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" os_cache_hits)"
          "stream_reads=$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" stream_reads)")
      fi
      bench_record scan "$arm" "$rep" "seconds=$seconds" "in_flash=$share" "disk=$LAB_DISK" "${more[@]}"
    done
  done
  bench_table scan seconds in_flash hits os_cache_hits stream_reads -- "${arms[@]}"
  [ "$BENCH_STOCK" = no ] || return 0
  bench_ratio_result scan "speed, loaded with probe / not loaded" "at least 0.95" seconds without probe
  bench_ratio_result scan "speed, loaded without probe / not loaded" "at least 0.95" seconds without no_probe
}

# A row of every page whose number hashes even.
scan_read_half() {
  lab_sql "$1" bench "
    SET enable_hashjoin = off; SET enable_mergejoin = off;
    CREATE TEMP TABLE tids AS
      SELECT format('(%s,1)', b)::tid AS tid
      FROM generate_series(0, pg_relation_size('pgbench_accounts') / 8192 - 1) b
      WHERE hashint8(b) % 2 = 0 ORDER BY random();
    ANALYZE tids;
    SELECT count(*) FROM tids JOIN pgbench_accounts a ON a.ctid = tids.tid" >/dev/null
}

scan_share() {
  lab_sql "$1" bench "
    SELECT round(count(*) * 8192.0 / pg_relation_size('pgbench_accounts'), 4) FROM pg_flashcache_pages
    WHERE relfilenode = pg_relation_filenode('pgbench_accounts')"
}
