#!/usr/bin/env bash
# Average latency without and with flash, on a disk that is busy: the figure the product exists for.

figure_latency() {
  local reps seconds scale rep arm size tps ms p95 reads reads0 n sampled
  local -a arms=(off third half) order
  reps=$(bench_reps 3) seconds=$(bench_seconds 60) scale=$(bench_scale 200)
  local database=$((scale * 15)) # MB, about
  local shared_buffers=$((scale / 2)) limit=$((scale / 2 + 200))
  local -a load=(-M prepared -c 16 -j 1 -s "$scale" -f "$LAB_ROOT/lab/gaussian.sql" bench)
  [ "$BENCH_STOCK" = no ] || arms=(off)

  lab_disk $((database * 3 / 2 + 1000))
  bench_say "disk: $(lab_disk_words)"
  bench_say "loading scale $scale"
  lab_init a
  lab_start a shared_buffers=256MB fsync=off
  lab_run lab_load a bench "$scale"
  database=$(lab_sql a bench "SELECT pg_database_size('bench') / 1048576")
  lab_stop a
  for ((rep = 1; rep <= reps; rep++)); do
    mapfile -t order < <(bench_rotate "$rep" "${arms[@]}")
    for arm in "${order[@]}"; do
      lab_drop_cache a
      case $arm in
        off) size=0 ;;
        third) size=$((database / 3)) ;;
        half) size=$((database * 47 / 100)) ;;
      esac
      if [ "$arm" = off ]; then
        lab_start a -m "$limit" "shared_buffers=${shared_buffers}MB"
        bench_pgbench a -T 20 "${load[@]}" >/dev/null
      else
        bench_start_flash a bench "${size}MB" -m "$limit" "shared_buffers=${shared_buffers}MB"
        lab_warm a bench 600 3 bench_warm_slice a "${load[@]}"
        bench_counters a bench >"$LAB_DIR/before"
      fi
      rm -f "$LAB_DIR"/log/latency.*
      lab_model slow
      reads0=$(lab_disk_reads)
      read -r tps ms n < <(bench_pgbench a -T "$seconds" --log --sampling-rate=0.1 --log-prefix="$LAB_DIR/log/latency" "${load[@]}")
      reads=$(lab_disk_reads)
      lab_model fast
      read -r sampled _ p95 < <(lab_latency "$LAB_DIR/log/latency")
      local -a more=()
      if [ "$arm" != off ]; then
        bench_counters a bench >"$LAB_DIR/after"
        more=("hit_ratio=$(bench_hit_ratio "$LAB_DIR/before" "$LAB_DIR/after")"
          "os_cache_hits=$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" os_cache_hits)")
      fi
      bench_record latency "$arm" "$rep" "average_ms=$ms" "p95_ms=$p95" "tps=$tps" "transactions=$n" "sampled=$sampled" \
        "disk_reads_per_s=$(((reads - reads0) / seconds))" "database_mb=$database" "flash_mb=$size" \
        "shared_buffers_mb=$shared_buffers" "limit=$LAB_LIMIT" "disk=$LAB_DISK" "${more[@]}"
      lab_stop a
    done
  done
  bench_table latency average_ms p95_ms tps disk_reads_per_s hit_ratio -- "${arms[@]}"
  [ "$BENCH_STOCK" = no ] || return 0
  bench_ratio_result latency "average off / flash 1/3" "at least 10" average_ms off third
  bench_ratio_result latency "average off / flash 47%" "at least 40" average_ms off half
}

