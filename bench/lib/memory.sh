#!/usr/bin/env bash
# Shared memory for each slot: what the view says, and what the server has handed out under the extension's
# names, which the extension cannot leave out.

figure_memory() {
  local size mb slots view allocated
  [ "$BENCH_STOCK" = no ] || { bench_say "there is no arm without the extension"; return 0; }
  lab_disk 0 plain
  lab_init a
  for mb in 128 1024 8192; do
    size=${mb}MB
    if [ "$(df --output=avail -m "$LAB_DIR" | tail -n 1)" -lt $((mb + 1000)) ]; then
      bench_say "no room for a flash file of $size"
      continue
    fi
    bench_start_flash a postgres "$size" shared_buffers=64MB
    read -r slots view < <(lab_sql a postgres "SELECT slots, memory_per_slot FROM pg_stat_flashcache")
    allocated=$(lab_sql a postgres "SELECT round(sum(allocated_size) / $slots, 3) FROM pg_shmem_allocations WHERE name ~ 'flashcache'")
    bench_record memory "$size" 1 "slots=$slots" "view_bytes_per_slot=$(printf '%.3f' "$view")" "allocated_bytes_per_slot=$allocated"
    lab_stop a
  done
  bench_table memory slots view_bytes_per_slot allocated_bytes_per_slot -- 128MB 1024MB 8192MB
  bench_result memory "bytes of shared memory per slot, 1 GB of flash" "$(bench_median memory 1024MB allocated_bytes_per_slot)" "at most 40"
}
