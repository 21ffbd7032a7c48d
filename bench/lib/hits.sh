#!/usr/bin/env bash
# One process reading random pages through the buffer manager, every one from flash, beside fio on the same file.

figure_hits() {
  local reps seconds rep pages=131072 pass misses slots elapsed reads iops
  reps=$(bench_reps 5) seconds=$(bench_seconds 10)
  [ "$BENCH_STOCK" = no ] || { bench_say "there is no arm without the extension"; return 0; }
  lab_disk 0 plain
  lab_init a
  bench_say "a table of $pages pages, and a flash file that holds it"
  lab_start a shared_buffers=256MB fsync=off
  lab_sql a postgres "CREATE DATABASE bench"
  bench_pages a bench "$pages"
  lab_stop a
  # Usage counts must not save pages from the clock: 16 MB of buffers for 1 GB of table. Disk and flash may be the
  # same device: whether one is faster is chance then.
  bench_start_flash a bench 1280MB shared_buffers=16MB temp_buffers=64MB pg_flashcache.pause_when_slow=off
  bench_random_reads EXPLAIN | lab_psql a -d bench -Atq -f - | bench_expect_tid_scan
  # where the machine's disk is faster than its flash, the probe would prefer it to filling
  bench_set_probe a bench off
  for ((pass = 1; pass <= 6; pass++)); do
    lab_drop_cache a # or the page cache would answer what is in flash already
    bench_counters a bench >"$LAB_DIR/before"
    bench_random_reads | lab_psql a -d bench -q -f - >/dev/null
    bench_counters a bench >"$LAB_DIR/after"
    misses=$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" misses)
    bench_say "filling, pass $pass: $misses misses"
    [ "$misses" -gt $((pages / 1000)) ] || break
  done
  bench_set_probe a bench auto
  # unwritten space is answered without the device: fio may read only what the cache has written
  slots=$(lab_sql a bench "SELECT max(slot) + 1 FROM pg_flashcache_pages")
  for ((rep = 1; rep <= reps; rep++)); do
    lab_drop_cache a
    bench_counters a bench >"$LAB_DIR/before"
    elapsed=$(bench_random_reads | lab_psql a -d bench -Atq -f - | tail -n 1)
    bench_counters a bench >"$LAB_DIR/after"
    reads=$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" hits)
    bench_record hits sql "$rep" "reads_per_s=$(awk -v n="$reads" -v t="$elapsed" 'BEGIN { printf "%.0f", n / t }')" \
      "hit_ratio=$(bench_hit_ratio "$LAB_DIR/before" "$LAB_DIR/after")" \
      "read_us=$(awk -v n="$reads" -v t="$(bench_delta "$LAB_DIR/before" "$LAB_DIR/after" read_time_us)" 'BEGIN { printf "%.2f", t / n }')"
    # the file begins with a header of 64 KiB
    iops=$(fio --name=randread --ioengine=psync --rw=randread --bs=8k --direct=1 --readonly --filename="$LAB_FLASH_DIR/a" \
      --offset=64k --size=$((slots * 8))k --runtime="$seconds" --time_based --norandommap --randrepeat=0 \
      --output-format=terse --terse-version=3 | cut -d';' -f8)
    bench_record hits fio "$rep" "reads_per_s=$iops"
  done
  lab_stop a
  # the same statement when it reads nothing: what SQL itself costs, which no cache can save
  lab_start a shared_buffers=1200MB temp_buffers=64MB
  bench_random_reads | lab_psql a -d bench -q -f - >/dev/null
  elapsed=$(bench_random_reads | lab_psql a -d bench -Atq -f - | tail -n 1)
  bench_record hits resident 1 "reads_per_s=$(awk -v n="$pages" -v t="$elapsed" 'BEGIN { printf "%.0f", n / t }')"
  bench_table hits reads_per_s hit_ratio read_us -- sql fio resident
  bench_ratio_result hits "SQL all hits / fio psync" "at least 0.85" reads_per_s sql fio
}

# Reads every page once, in random order, and prints the seconds it took. The addresses are in a temporary
# table, whose pages are in the session's own buffers.
bench_random_reads() {
  cat <<X
    SET enable_hashjoin = off; SET enable_mergejoin = off;
    CREATE TEMP TABLE tids AS SELECT format('(%s,1)', id)::tid AS tid FROM generate_series(0, 131071) id ORDER BY random();
    ANALYZE tids;
    SELECT extract(epoch FROM clock_timestamp()) AS t0 \gset
    ${1-} SELECT count(*) FROM tids JOIN pages ON pages.ctid = tids.tid;
    SELECT extract(epoch FROM clock_timestamp()) - :t0;
X
}
