#!/usr/bin/env bash
# Scans of a table all of whose pages are in flash, beside fio on the same file with requests of the same size and as many at
# once. Twice: with neighbouring pages in neighbouring slots, as a table that was read in order leaves them, and scattered, as
# random reads leave them.
#
# A scan through a buffer ring does not fill the cache, by design, so the table gets there by reads of single pages, slower
# than the writer can copy, until pg_flashcache_pages has them all. The disk is slow and its page cache cold all the time: the
# cache goes by what reads have cost, and would leave the table to a disk that it has known as fast.

FLASHSCAN_PAGES=98304 # 768 MB, six times shared_buffers
FLASHSCAN_OTHER=40960 # another table, to have the pages of the first one evicted
FLASHSCAN_BATCH=64
FLASHSCAN_STRIDE=61981 # of scattered reads, in pages: a prime, so that every page is read once
FLASHSCAN_DEPTH=16     # effective_io_concurrency: PostgreSQL 18's default, so that prefetching means the same on every version

figure_flashscan() {
  local reps rep layout arm request combine
  local -a order arms=(seq bitmap fio_seq fio_ahead)
  reps=$(bench_reps 5)
  [ "$BENCH_STOCK" = no ] || { bench_say "there is no arm without the extension"; return 0; }
  lab_disk 3500
  bench_say "disk: $(lab_disk_words)"
  lab_init a
  bench_say "a table of $FLASHSCAN_PAGES pages"
  lab_start a shared_buffers=256MB fsync=off
  lab_sql a postgres "CREATE DATABASE bench"
  bench_pages a bench "$FLASHSCAN_PAGES"
  lab_psql a -d bench -q -v ON_ERROR_STOP=1 -f - <<X
    CREATE INDEX ON pages (id);
    CREATE EXTENSION pg_prewarm;
    -- unlogged: it is read from the disk each time, since no page of it ever gets into flash
    CREATE UNLOGGED TABLE other (filler text);
    ALTER TABLE other ALTER filler SET STORAGE PLAIN;
    INSERT INTO other SELECT repeat('x', 7900) FROM generate_series(1, $FLASHSCAN_OTHER);
    VACUUM (FREEZE, ANALYZE) other;
X
  # in kB; what reads at most in one request, and what each page of a bitmap scan is before PostgreSQL 18
  combine=$(lab_sql a bench "SELECT coalesce((SELECT setting::int * 8 FROM pg_settings WHERE name = 'io_combine_limit'), 8)")
  request=$([ "$LAB_MAJOR" -ge 18 ] && echo "$combine" || echo 8)
  lab_stop a
  if [ "$LAB_MAJOR" -ge 18 ]; then
    arms+=(fio_deep)
  else
    arms+=(fio_bitmap)
    [ "$LAB_MAJOR" -ge 17 ] || bench_say "PostgreSQL $LAB_MAJOR reads one block at a time: so does fio"
  fi
  for layout in ordered scattered; do
    flashscan_fill "$layout"
    for ((rep = 1; rep <= reps; rep++)); do
      mapfile -t order < <(bench_rotate "$rep" "${arms[@]}")
      for arm in "${order[@]}"; do
        case $arm in
          seq | bitmap) flashscan_from_flash "$layout" "$arm" "$rep" ;;
          fio_seq) flashscan_fio "$layout" "$arm" "$rep" "$combine" 1 ;;
          fio_bitmap) flashscan_fio "$layout" "$arm" "$rep" "$request" "$FLASHSCAN_DEPTH" ;;
          # for information: the requests that the cache makes where it reads a stream ahead; what the device has for those who ask for more at once
          fio_ahead) flashscan_fio "$layout" "$arm" "$rep" 64 2 ;;
          fio_deep) flashscan_fio "$layout" "$arm" "$rep" "$combine" "$FLASHSCAN_DEPTH" ;;
        esac
      done
    done
    # what a scattered request is for the device
    if [ "$layout" = scattered ] && [ "$combine" -gt 8 ]; then
      for ((rep = 1; rep <= reps; rep++)); do flashscan_fio scattered fio_pages "$rep" 8 $((combine / 8)); done
    fi
    lab_model fast
    lab_stop a
  done
  bench_table flashscan mb_per_s from_flash in_order read_us_per_mb cpu_us_per_mb queue_us_per_mb -- "${arms[@]/#/ordered.}" "${arms[@]/#/scattered.}"
  for layout in ordered scattered; do
    flashscan_result "$layout" seq fio_seq "$combine kB, depth 1"
    if [ "$LAB_MAJOR" -ge 18 ]; then
      flashscan_result "$layout" bitmap fio_seq "$combine kB, depth 1"
    else
      flashscan_result "$layout" bitmap fio_bitmap "$request kB, depth $FLASHSCAN_DEPTH"
    fi
  done
  bench_ratio_result flashscan "ordered: seq scan / fio 64 kB, depth 2" "none" mb_per_s ordered.seq ordered.fio_ahead
  [ "$combine" -eq 8 ] || bench_ratio_result flashscan "scattered: seq scan / fio 8 kB at random, depth $((combine / 8))" "none" mb_per_s scattered.seq scattered.fio_pages
}

# flashscan_result LAYOUT SCAN FIO WORDS: the ratio, and how many scans are not in it
flashscan_result() {
  local median least greatest left
  left=$(awk -v a="$1.$2.left" '$1 == "flashscan" && $2 == a && $4 == "from_flash"' "$BENCH_VALUES" | wc -l)
  read -r median least greatest < <(bench_ratio flashscan mb_per_s "$1.$2" "$1.$3") || true
  bench_result flashscan "$1: $2 scan / fio $4" "$median" "at least 0.8" \
    "${least:+range $least to $greatest; }$left scans beside these were left to the disk"
}

# A scan that is read from flash, in at most five tries: a stream stays with the disk until the cache has found out that flash
# pays. One that is not, for more than a page in a hundred, is recorded as another arm.
flashscan_from_flash() {
  local try
  for ((try = 1; try <= 5; try++)); do
    ! flashscan_scan "$@" || return 0
  done
  bench_say "$1 $2: the cache leaves this scan to the disk"
}

# A server whose flash holds every page of the table.
flashscan_fill() {
  local layout=$1 stride=1 clients=1 pass share
  if [ "$layout" = scattered ]; then stride=$FLASHSCAN_STRIDE clients=16; fi
  # one client's reads in order are a stream; 16 keep all spindles of the disk busy
  bench_start_flash a bench 1500MB shared_buffers=128MB work_mem=64MB "effective_io_concurrency=$FLASHSCAN_DEPTH"
  lab_psql a -d bench -Atq -c "EXPLAIN $(flashscan_batch pages 1 "$FLASHSCAN_PAGES" 0)" | bench_expect_tid_scan
  lab_model slow
  # 18 times one read in many only: it may know this disk by what the page cache answered before it was slow
  lab_drop_cache a
  flashscan_read other $((16 * 8 * FLASHSCAN_BATCH)) "$FLASHSCAN_STRIDE" 16
  for ((pass = 1; pass <= 10; pass++)); do
    lab_drop_cache a # or the page cache would answer what is in flash already, and look like a fast disk
    flashscan_read pages "$FLASHSCAN_PAGES" "$stride" "$clients"
    flashscan_read other "$FLASHSCAN_OTHER" 1 1
    share=$(flashscan_share)
    bench_say "$layout, pass $pass: $share of the table in flash"
    [ "$share" != 1.0000 ] || return 0
  done
  bench_say "the table is not completely in flash"
}

# The statement that reads a batch of pages, from the given number on.
flashscan_batch() {
  echo "SELECT count(*) FROM $1 WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', i * $2 % $3)::tid
    FROM generate_series($4::bigint, $4 + $((FLASHSCAN_BATCH - 1))) i))"
}

# So many pages, each once, at most 6,400 a second: flashscan_read TABLE PAGES STRIDE CLIENTS
flashscan_read() {
  local table=$1 pages=$2 stride=$3 clients=$4 all=$FLASHSCAN_PAGES
  [ "$table" = pages ] || all=$FLASHSCAN_OTHER
  {
    echo "\\set from (:n * $clients + :client_id) * $FLASHSCAN_BATCH"
    flashscan_batch "$table" "$stride" "$all" :from | tr '\n' ' '
    echo ";"
    echo "\\set n :n + 1"
  } >"$LAB_DIR/batch.sql"
  lab_run lab_pgbench a -n -M prepared -c "$clients" -j 1 -t $((pages / FLASHSCAN_BATCH / clients)) -R $((6400 / FLASHSCAN_BATCH)) \
    -D n=0 -f "$LAB_DIR/batch.sql" bench >"$LAB_DIR/log/pgbench" 2>&1 || { cat "$LAB_DIR/log/pgbench" >&2; return 1; }
}

flashscan_share() {
  lab_sql a bench "SELECT trunc(count(*)::numeric / $FLASHSCAN_PAGES, 4) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('pages')"
}

# The share of pages that have their right neighbour in the next slot.
flashscan_in_order() {
  lab_sql a bench "
    SELECT round(avg((next = slot + 1)::int), 4)
    FROM (SELECT slot, lead(slot) OVER (ORDER BY relblocknumber) AS next
      FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('pages')) s"
}

# Processor time of this session (1), and how long it has waited for a processor (2); ns, 0 where the kernel does not tell.
flashscan_cpu() {
  echo "coalesce(split_part(pg_read_file('/proc/self/schedstat', 0, 100, true), ' ', $1)::bigint, 0)"
}

# Requests that sessions have made so far, and their bytes: 18 counts them, before it only pages are counted.
flashscan_requests() {
  if [ "$LAB_MAJOR" -ge 18 ]; then
    lab_sql a bench "SELECT sum(reads), sum(read_bytes) FROM pg_stat_io WHERE backend_type = 'client backend'"
  else
    echo 0 0
  fi
}

# Microseconds for a megabyte of pages.
flashscan_per_mb() { awk -v t="$1" -v n="$2" 'BEGIN { printf "%.1f", n ? t * 128 / n : 0 }'; }

# flashscan_scan LAYOUT SCAN REP: status 1 if it was not read from flash
flashscan_scan() {
  local layout=$1 scan=$2 rep=$3 arm=$1.$2 share in_order more seconds cpu_ns queue_ns hits misses disk_reads
  local os_cache_hits stream_reads read_us pages requests0 bytes0 requests bytes
  local query="SELECT count(filler) FROM pages" method=seqscan words='Seq Scan'
  # not count(*): up to PostgreSQL 17 a bitmap scan does not read the pages then
  if [ "$scan" = bitmap ]; then
    query+=" WHERE id BETWEEN 0 AND $((FLASHSCAN_PAGES - 1))" method=bitmapscan words='Bitmap Heap Scan'
  fi
  share=$(flashscan_share)
  in_order=$(flashscan_in_order)
  lab_drop_cache a
  # nothing of the table is left in the pool then but its index and its visibility map
  lab_sql a bench "SELECT pg_prewarm('other')" >/dev/null
  lab_sql a bench "SELECT pg_prewarm('pages_id_idx'), pg_prewarm('pages', 'buffer', 'vm')" >/dev/null
  read -r requests0 bytes0 < <(flashscan_requests)
  # one session, since a session's counters are its own; the catalogs are read by EXPLAIN and by the first look at them
  lab_psql a -d bench -Atq -F ' ' -v ON_ERROR_STOP=1 -f - >"$LAB_DIR/scan" <<X
    SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
    SET enable_$method = on;
    EXPLAIN $query;
    SELECT * FROM pg_stat_flashcache_session \gset
    SELECT extract(epoch FROM clock_timestamp()) AS began, $(flashscan_cpu 1) AS cpu_ns, $(flashscan_cpu 2) AS queue_ns,
      * FROM pg_stat_flashcache_session \gset
    $query;
    SELECT 'measured', extract(epoch FROM clock_timestamp()) - :began, $(flashscan_cpu 1) - :cpu_ns, $(flashscan_cpu 2) - :queue_ns,
      hits - :hits, misses - :misses, disk_reads - :disk_reads,
      os_cache_hits - :os_cache_hits, stream_reads - :stream_reads, read_time_us - :read_time_us FROM pg_stat_flashcache_session;
X
  grep -qF "$words" "$LAB_DIR/scan" || lab_die "the plan is not a $words: $(cat "$LAB_DIR/scan")"
  read -r _ seconds cpu_ns queue_ns hits misses disk_reads os_cache_hits stream_reads read_us < <(grep '^measured' "$LAB_DIR/scan")
  pages=$((hits + misses))
  [ $((hits * 100)) -ge $((pages * 99)) ] || arm+=.left
  read -r requests bytes < <(flashscan_requests)
  requests=$((requests - requests0))
  more=$(lab_sql a bench "SELECT 'data_checksums=' || current_setting('data_checksums') || coalesce(' io_method=' || current_setting('io_method', true), '')")
  [ "$requests" -eq 0 ] || more+=" request_kb=$(awk -v b="$((bytes - bytes0))" -v n="$requests" 'BEGIN { printf "%.1f", b / n / 1024 }')"
  # shellcheck disable=SC2086  # the settings are words
  bench_record flashscan "$arm" "$rep" \
    "mb_per_s=$(awk -v n="$pages" -v t="$seconds" 'BEGIN { printf "%.1f", n / 128 / t }')" "seconds=$(printf '%.4f' "$seconds")" \
    "from_flash=$(awk -v h="$hits" -v p="$FLASHSCAN_PAGES" 'BEGIN { printf "%.4f", h / p }')" "in_flash=$share" "in_order=$in_order" \
    "hits=$hits" "misses=$misses" "disk_reads=$disk_reads" "os_cache_hits=$os_cache_hits" "stream_reads=$stream_reads" \
    "read_us_per_mb=$(flashscan_per_mb "$read_us" "$hits")" \
    "cpu_us_per_mb=$(flashscan_per_mb $((cpu_ns / 1000)) "$pages")" "queue_us_per_mb=$(flashscan_per_mb $((queue_ns / 1000)) "$pages")" "disk=$LAB_DISK" $more
  [[ $arm != *.left ]]
}

# One pass over the slots that the cache has written: flashscan_fio LAYOUT ARM REP REQUEST_KB DEPTH
flashscan_fio() {
  local layout=$1 arm=$2 rep=$3 kb=$4 depth=$5 slots rw=read engine=psync
  # requests of one page are where the pages are; larger ones are given the best case
  [ "$layout" = ordered ] || [ "$kb" -gt 8 ] || rw=randread
  [ "$depth" -eq 1 ] || engine=io_uring
  slots=$(lab_sql a bench "SELECT max(slot) + 1 FROM pg_flashcache_pages")
  # the file begins with a header of 64 KiB
  bench_record flashscan "$layout.$arm" "$rep" "mb_per_s=$(fio --name=scan --ioengine="$engine" --iodepth="$depth" --rw="$rw" --bs="${kb}k" \
    --direct=1 --readonly --filename="$LAB_FLASH_DIR/a" --offset=64k --size=$(((slots - slots % 16) * 8))k \
    --output-format=terse --terse-version=3 | cut -d';' -f7 | awk '{ printf "%.1f", $1 / 1024 }')" \
    "rw=$rw" "request_kb=$kb" "depth=$depth"
}
