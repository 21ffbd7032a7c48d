#!/usr/bin/env bash
# What the extension costs where the server reads asynchronously and the cache has nothing for it: a sequential scan, and one of
# every tenth page, from the lab disk, at several depths of effective_io_concurrency. 18 and later.
#
#   stock      not loaded
#   disabled   loaded, pg_flashcache.enabled = off
#   empty      active, next to nothing of the table in flash (a cache of 64 slots)

ASYNC_PAGES=16384 # 128 MB
ASYNC_DEPTHS=(16 64 256)

figure_async() {
  local reps rep arm method depth scan
  local -a arms=(stock disabled empty) order
  reps=$(bench_reps 5)
  [ "$LAB_MAJOR" -ge 18 ] || { bench_say "PostgreSQL $LAB_MAJOR reads synchronously"; return 0; }
  [ "$BENCH_STOCK" = no ] || arms=(stock)
  lab_disk 3500
  bench_say "disk: $(lab_disk_words)"
  lab_init stock
  lab_start stock shared_buffers=256MB fsync=off
  lab_sql stock postgres "CREATE DATABASE bench"
  bench_pages stock bench "$ASYNC_PAGES"
  lab_psql stock -d bench -q -v ON_ERROR_STOP=1 -c "CREATE INDEX ON pages (id)" -c "CREATE EXTENSION pg_prewarm" -c "CREATE EXTENSION pg_buffercache"
  lab_stop stock
  for arm in "${arms[@]:1}"; do lab_clone stock "$arm"; done
  for method in worker io_uring; do
    for arm in "${arms[@]}"; do async_start "$arm" "$method"; done
    for ((rep = 1; rep <= reps; rep++)); do
      for depth in "${ASYNC_DEPTHS[@]}"; do
        for scan in seq sparse; do
          mapfile -t order < <(bench_rotate "$rep" "${arms[@]}")
          for arm in "${order[@]}"; do async_scan "$arm" "$rep" "$method" "$depth" "$scan"; done
        done
      done
    done
    for arm in "${arms[@]}"; do lab_stop "$arm"; done
  done
  [ "$BENCH_STOCK" = no ] || return 0
  for method in worker io_uring; do
    for depth in "${ASYNC_DEPTHS[@]}"; do
      for scan in seq sparse; do
        for arm in "${arms[@]:1}"; do
          bench_ratio_result async "$method, depth $depth, $scan: speed, $arm / stock" "at least 0.98" seconds \
            "stock.$method.$depth.$scan" "$arm.$method.$depth.$scan"
        done
      done
    done
  done
}

# async_start ARM METHOD. A process may pin its share of the buffers only, and reads no more than that at once: with so few
# connections and so many buffers it is 256 pages and more.
async_start() {
  local -a settings=(shared_buffers=256MB max_connections=10 "io_method=$2" io_max_concurrency=256)
  case $1 in
    stock) lab_start stock "${settings[@]}" ;;
    empty) bench_start_flash empty bench 512kB "${settings[@]}" ;;
    disabled)
      lab_flash disabled 512kB
      lab_start disabled "${LAB_FLASH[@]}" "${settings[@]}" pg_flashcache.enabled=off
      ;;
  esac
}

# async_scan ARM REP METHOD DEPTH seq|sparse
async_scan() {
  local arm=$1 rep=$2 method=$3 depth=$4 scan=$5 seconds
  local query="SELECT count(filler) FROM pages" way=seqscan words='Seq Scan'
  # every tenth page is no stream of the cache's
  if [ "$scan" = sparse ]; then
    way=bitmapscan words='Bitmap Heap Scan' query+=" WHERE id = ANY (ARRAY(SELECT generate_series(0, $((ASYNC_PAGES - 1)), 10)))"
  fi
  lab_sql "$arm" bench "SELECT pg_buffercache_evict_relation('pages')" >/dev/null
  lab_drop_cache "$arm"
  lab_sql "$arm" bench "SELECT pg_prewarm('pages_id_idx'), pg_prewarm('pages', 'buffer', 'vm')" >/dev/null
  lab_model slow
  lab_psql "$arm" -d bench -Atq -v ON_ERROR_STOP=1 -c "SET effective_io_concurrency = $depth" \
    -c "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_$way = on" \
    -c "EXPLAIN $query" -c '\timing on' -c "$query" >"$LAB_DIR/scan"
  lab_model fast
  grep -qF "$words" "$LAB_DIR/scan" || lab_die "the plan is not a $words: $(cat "$LAB_DIR/scan")"
  seconds=$(awk '/^Time:/ { print $2 / 1000 }' "$LAB_DIR/scan")
  bench_record async "$arm.$method.$depth.$scan" "$rep" "seconds=$seconds" "disk=$LAB_DISK"
}
