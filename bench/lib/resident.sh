#!/usr/bin/env bash
# What the extension costs where it can do nothing: everything is in shared_buffers.

figure_resident() {
  local reps seconds scale rep server
  reps=$(bench_reps 5) seconds=$(bench_seconds 5) scale=$(bench_scale 20)
  local buffers=$((scale * 20 + 100))MB
  local -a servers=(without loaded)
  [ "$BENCH_STOCK" = no ] || servers=(without)
  lab_disk 0 plain
  lab_init without
  lab_start without "shared_buffers=$buffers" fsync=off
  lab_run lab_load without bench "$scale"
  lab_sql without bench "CREATE EXTENSION pg_prewarm"
  lab_stop without
  lab_clone without loaded
  # a restart each time: where the kernel puts a server's memory favours one or the other for its whole life
  for ((rep = 1; rep <= reps; rep++)); do
    for server in "${servers[@]}"; do
      case $server in
        without) lab_start without "shared_buffers=$buffers" ;;
        loaded) bench_start_flash loaded bench 256MB "shared_buffers=$buffers" ;;
      esac
      lab_sql "$server" bench "SELECT pg_prewarm(oid) FROM pg_class WHERE relname ~ '^pgbench_.*' AND relkind IN ('r', 'i')" >/dev/null
      bench_pgbench "$server" -T 3 -S -M prepared -c 8 -j 2 bench >/dev/null
    done
    bench_round resident "$rep" 4 "$seconds" "${servers[@]}" -- -S -M prepared -c 8 -j 2 bench
    for server in "${servers[@]}"; do lab_stop "$server"; done
  done
  bench_table resident tps cpu_us -- "${servers[@]}"
  [ "$BENCH_STOCK" = yes ] || bench_load_results resident "in shared_buffers" 0.99 loaded
}
