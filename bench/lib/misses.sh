#!/usr/bin/env bash
# What the extension costs where it takes part in every read and never helps. Uniform keys, a buffer pool far
# smaller than the table, and
#   pagecache   everything in the kernel's page cache, a read costs some 5 us: the hardest case.
#               tiny: 64 slots, no page lives to be found again. large: room for two thirds of the table, every
#               eviction offered; there are no hits, because the page-cache probe finds the page there.
#   disk        the lab disk, page cache limited, 64 slots.

figure_misses() {
  local reps seconds scale rep server ticks
  reps=$(bench_reps 5) seconds=$(bench_seconds 5) scale=$(bench_scale 60)
  local buffers=64MB limit=200
  local -a servers=(without tiny large)
  [ "$BENCH_STOCK" = no ] || servers=(without)
  lab_disk $((scale * 15 * 7 / 2 + 2000))
  bench_say "disk: $(lab_disk_words)"
  lab_init without
  lab_start without shared_buffers=256MB fsync=off
  lab_run lab_load without bench "$scale"
  lab_stop without
  for server in "${servers[@]:1}"; do lab_clone without "$server"; done
  local script=$LAB_DIR/uniform.sql
  # shellcheck disable=SC2016
  echo '\set aid random(1, 100000 * :scale)
    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;' >"$script"
  local -a load=(-M prepared -c 8 -j 2 -s "$scale" -f "$script" bench)

  bench_say "everything in the page cache"
  for ((rep = 1; rep <= reps; rep++)); do
    for server in "${servers[@]}"; do
      misses_start "$server" "$buffers" "$scale"
      # every page into the page cache; the load that follows fills the cache
      cat "$LAB_FILES/$server"/base/*/* >/dev/null
      bench_pgbench "$server" -T 5 "${load[@]}" >/dev/null
      if [ "$server" != without ]; then
        bench_counters "$server" bench >"$LAB_DIR/before.$server"
        misses_writer_ticks "$server" >"$LAB_DIR/ticks.$server"
      fi
    done
    bench_round misses "$rep" 4 "$seconds" "${servers[@]}" -- "${load[@]}"
    for server in "${servers[@]}"; do
      if [ "$server" != without ]; then
        bench_counters "$server" bench >"$LAB_DIR/after"
        ticks=$(($(misses_writer_ticks "$server") - $(cat "$LAB_DIR/ticks.$server")))
        bench_record misses "$server.more" "$rep" "hit_ratio=$(bench_hit_ratio "$LAB_DIR/before.$server" "$LAB_DIR/after")" \
          "misses=$(bench_delta "$LAB_DIR/before.$server" "$LAB_DIR/after" misses)" \
          "inserts=$(bench_delta "$LAB_DIR/before.$server" "$LAB_DIR/after" inserts)" \
          "os_cache_hits=$(bench_delta "$LAB_DIR/before.$server" "$LAB_DIR/after" os_cache_hits)" \
          "writer_cpu_share=$(awk -v t="$ticks" -v hz="$(getconf CLK_TCK)" -v s="$((seconds * 4))" 'BEGIN { printf "%.3f", t / hz / s }')"
      fi
      lab_stop "$server"
    done
  done
  bench_table misses tps cpu_us -- "${servers[@]}"

  bench_say "on the lab disk"
  servers=("${servers[@]:0:2}")
  for server in "${servers[@]}"; do
    lab_drop_cache "$server"
    misses_start "$server" "$buffers" "$scale" -m "$limit"
    bench_pgbench "$server" -T 10 "${load[@]}" >/dev/null
  done
  lab_model slow
  for ((rep = 1; rep <= reps; rep++)); do
    bench_round misses_disk "$rep" 1 $((seconds * 3)) "${servers[@]}" -- "${load[@]}"
  done
  lab_model fast
  bench_table misses_disk tps cpu_us -- "${servers[@]}"
  [ "$BENCH_STOCK" = no ] || return 0
  bench_load_results misses "page cache, 64 slots" 0.98 tiny
  bench_load_results misses "page cache, room for 2/3 of the table" 0.98 large
  bench_load_results misses_disk "lab disk ($LAB_LIMIT), 64 slots" 0.98 tiny
}

misses_start() {
  local server=$1 buffers=$2 scale=$3
  shift 3
  case $server in
    without) lab_start without "$@" "shared_buffers=$buffers" ;;
    tiny) bench_start_flash tiny bench 512kB "$@" "shared_buffers=$buffers" ;;
    large) bench_start_flash large bench $((scale * 10))MB "$@" "shared_buffers=$buffers" pg_flashcache.admission=all ;;
  esac
}

# Processor time of the cache's writer, in clock ticks. While the other servers are under load it idles.
misses_writer_ticks() {
  local postmaster child
  local -a children
  postmaster=$(cat "$LAB_DIR/socket/$1.pid")
  read -ra children <"/proc/$postmaster/task/$postmaster/children" || true # the line has no end
  for child in "${children[@]}"; do
    if grep -qs 'flashcache writer' "/proc/$child/cmdline"; then awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$child/stat"; fi
  done
}
