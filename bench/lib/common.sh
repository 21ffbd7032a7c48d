#!/usr/bin/env bash
# Sourced by bench.sh: what several figures need.

bench_commit() { git -C "$LAB_ROOT" describe --always --dirty 2>/dev/null || echo unknown; }

# The line that belongs in front of figures: what they were measured on.
bench_conditions() {
  local commit
  commit=${BENCH_COMMIT:-$(bench_commit)}
  bench_json "conditions=$1" "date=$(date -u +%Y-%m-%dT%H:%M:%SZ)" "commit=$commit" "kernel=$(uname -r)" "cpus=$(nproc)" \
    "cpu=$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)" \
    "memory_mb=$(awk '/^MemTotal/ { printf "%d", $2 / 1024 }' /proc/meminfo)" \
    "server=$BENCH_SERVER" "settings=${LAB_SETTINGS[*]}" \
    "load=$(cut -d' ' -f1 /proc/loadavg)" "folder=$(stat -f -c %T "$LAB_DIR")" \
    "flash=$(stat -f -c %T "$LAB_FLASH_DIR")" >>"$BENCH_OUT"
  echo
  echo "== $1, $BENCH_SERVER =="
}

bench_say() { printf '  [%3d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; }

bench_reps() { echo "${BENCH_REPS:-$1}"; }
bench_seconds() { echo "${BENCH_SECONDS:-$1}"; }
bench_scale() { echo "${BENCH_SCALE:-$1}"; }

# Puts the arms into the order of a repetition: each takes each place, so that no arm is always the first.
bench_rotate() {
  local rep=$1 i n
  shift
  n=$#
  for ((i = 0; i < n; i++)); do
    local at=$(((rep + i) % n + 1))
    echo "${!at}"
  done
}

# A server with the cache, cold and in a new file: bench_start_flash NAME DB SIZE [-m LIMIT_MB] SETTING...
bench_start_flash() {
  local name=$1 db=$2 flash_size=${3/%MB/MiB}
  local -a limit=()
  lab_flash "$name" "$3"
  shift 3
  if [ "${1-}" = -m ]; then
    limit=(-m "$2")
    shift 2
  fi
  fc_as_postgres rm -f "$LAB_FLASH_DIR/$name"
  # in memory the room is taken before, or it would be charged to the server's limit
  if lab_in_memory "$LAB_FLASH_DIR"; then
    fc_as_postgres fallocate -l "$flash_size" "$LAB_FLASH_DIR/$name"
    fc_as_postgres chmod 600 "$LAB_FLASH_DIR/$name"
  fi
  lab_start "$name" "${limit[@]}" "${LAB_FLASH[@]}" "$@"
  [ -n "$(lab_sql "$name" "$db" "SELECT to_regclass('pg_stat_flashcache')")" ] || lab_extension "$name" "$db"
  lab_wait_active "$name" "$db"
}

# What the view has counted: "name value" pairs, to be subtracted by bench_delta.
bench_counters() {
  lab_sql "$1" "$2" "SELECT key, value FROM pg_stat_flashcache s, jsonb_each_text(to_jsonb(s)) WHERE value ~ '^[0-9]+\$'"
}

# bench_delta BEFORE AFTER NAME: files with bench_counters in them
bench_delta() {
  awk -v name="$3" '$1 == name { v[FILENAME] = $2 } END { printf "%d\n", v[ARGV[2]] - v[ARGV[1]] }' "$1" "$2"
}

# hits / (hits + misses) between two files of counters, four decimals.
bench_hit_ratio() {
  awk -v h="$(bench_delta "$1" "$2" hits)" -v m="$(bench_delta "$1" "$2" misses)" \
    'BEGIN { printf "%.4f\n", h + m ? h / (h + m) : 0 }'
}

# Transactions a second of one pgbench run, its average latency in ms, and the number of transactions.
bench_pgbench() {
  local name=$1 out=$LAB_DIR/log/pgbench
  shift
  lab_run lab_pgbench "$name" -n "$@" >"$out" 2>&1 || { cat "$out" >&2; return 1; }
  awk '/^tps = / { tps = $3 } /^latency average = / { ms = $4 } /^number of transactions actually/ { n = $6 }
    END { printf "%.1f %.4f %d\n", tps, ms, n }' "$out"
}

# Buffer-pool misses as the server counts them, which does without the extension. The count of a session
# arrives when it ends.
bench_blocks_read() {
  lab_sql "$1" "$2" "SELECT blks_read FROM pg_stat_database WHERE datname = current_database()"
}

# A table of one row a page, and with it a way to read any page through the buffer manager at the price of
# about a microsecond: a join with row addresses, which is a nested loop over TID scans. (pg_prewarm(), a
# page a call, costs four times that; get_raw_page() copies the page as well.)
bench_pages() {
  local name=$1 db=$2 pages=$3
  lab_psql "$name" -d "$db" -q -v ON_ERROR_STOP=1 -f - <<X
    CREATE TABLE pages (id int, filler text);
    ALTER TABLE pages ALTER filler SET STORAGE PLAIN;
    INSERT INTO pages SELECT i, repeat('x', 7900) FROM generate_series(0, $pages - 1) i;
    VACUUM (FREEZE, ANALYZE) pages;
    CHECKPOINT;
X
}

# Processor time of a server's processes that have ended, in clock ticks: with pgbench's sessions gone, theirs.
bench_ticks() {
  while [ "$(lab_sql "$1" postgres "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")" -gt 1 ]; do :; done
  awk '{ sub(/.*\) /, ""); print $14 + $15 }' "/proc/$(cat "$LAB_DIR/socket/$1.pid")/stat"
}

# Two or more servers run side by side, idle but for the one under load; slices of a few seconds go round them
# in an order that alternates. bench_round FIGURE REP SLICES SECONDS SERVERS -- PGBENCH-ARGS: records each
# server's transactions a second (median of its slices) and the processor time of a transaction in its
# sessions. The latter hardly minds what else the machine is doing.
bench_round() {
  local figure=$1 rep=$2 slices=$3 seconds=$4 i server tps n cpu
  local -a servers=() order
  local -A all=() transactions=() ticks=()
  shift 4
  while [ "$1" != -- ]; do
    servers+=("$1")
    shift
  done
  shift
  for server in "${servers[@]}"; do ticks[$server]=$(bench_ticks "$server"); done
  for ((i = 0; i < slices; i++)); do
    mapfile -t order < <(bench_rotate $((rep + i)) "${servers[@]}")
    for server in "${order[@]}"; do
      read -r tps _ n < <(bench_pgbench "$server" -T "$seconds" "$@")
      all[$server]="${all[$server]-} $tps"
      transactions[$server]=$((${transactions[$server]-0} + n))
    done
  done
  for server in "${servers[@]}"; do
    cpu=$(($(bench_ticks "$server") - ticks[$server]))
    bench_record "$figure" "$server" "$rep" "tps=$(tr ' ' '\n' <<<"${all[$server]}" | sed '/^$/d' | bench_sorted_median)" \
      "cpu_us=$(awk -v t="$cpu" -v hz="$(getconf CLK_TCK)" -v n="${transactions[$server]}" 'BEGIN { printf "%.2f", n ? 1e6 * t / hz / n : 0 }')"
  done
}

# Both ratios of such a round: bench_load_results FIGURE WHAT GOAL SERVER, against the server "without".
bench_load_results() {
  bench_ratio_result "$1" "$2: transactions/s, loaded / not loaded" "at least $3" tps "$4" without
  bench_ratio_result "$1" "$2: processor time of a transaction, not loaded / loaded" "at least $3" cpu_us without "$4"
}

# Ten seconds of a load, for lab_warm.
bench_warm_slice() { lab_pgbench "$1" -n -T 10 "${@:2}" >/dev/null 2>&1; }

# Switches os_cache_probe of a running server: auto or off.
bench_set_probe() {
  local i
  lab_set "$1" "$2" "SET pg_flashcache.os_cache_probe = $3"
  for ((i = 0; i < 100; i++)); do
    [ "$(lab_sql "$1" "$2" 'SHOW pg_flashcache.os_cache_probe')" != "$3" ] || return 0
    sleep 0.05
  done
  lab_die "pg_flashcache.os_cache_probe did not become $3"
}

# Ends the run where a statement is not planned as a nested loop over TID scans; the plan comes on standard input.
bench_expect_tid_scan() {
  local plan
  plan=$(cat)
  [[ $plan == *'Tid Scan'* ]] || lab_die "the plan is not a TID scan: $plan"
}
