#!/usr/bin/env bash
# Sourced by bench.sh: what was measured goes into a file of JSON lines; medians and tables are made from it.
#
#   bench_record FIGURE ARM REP KEY=VALUE...     one measurement
#   bench_median FIGURE ARM KEY                  over the repetitions
#   bench_table FIGURE KEY... -- ARM...          medians, an arm a row
#   bench_ratio FIGURE KEY ARM1 ARM2             median, least and greatest of ARM1/ARM2, repetition by repetition
#   bench_result FIGURE NAME VALUE GOAL [NOTE]   a line of the summary; GOAL is text such as "at least 0.98"

BENCH_OUT=''    # JSON lines
BENCH_VALUES='' # the same, "figure arm rep key value" a line
BENCH_SERVER='' # of which server: "PostgreSQL 15.20"

bench_json() {
  local pair value first=yes
  printf '{'
  for pair; do
    value=${pair#*=}
    [ "$first" = yes ] || printf ', '
    first=no
    if [[ $value =~ ^-?(0|[1-9][0-9]*)(\.[0-9]+)?$ ]]; then
      printf '"%s": %s' "${pair%%=*}" "$value"
    else
      printf '"%s": "%s"' "${pair%%=*}" "${value//\"/\\\"}"
    fi
  done
  printf '}\n'
}

bench_record() {
  local figure=$1 arm=$2 rep=$3 pair
  shift 3
  bench_json "figure=$figure" "arm=$arm" "rep=$rep" "server=$BENCH_SERVER" "$@" >>"$BENCH_OUT"
  for pair; do echo "$figure $arm $rep ${pair%%=*} ${pair#*=}" >>"$BENCH_VALUES"; done
  printf '  %-14s %-16s run %s  %s\n' "$figure" "$arm" "$rep" "$*"
}

bench_sorted_median() {
  sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.10g\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

bench_median() {
  awk -v f="$1" -v a="$2" -v k="$3" '$1 == f && $2 == a && $4 == k { print $5 }' "$BENCH_VALUES" | bench_sorted_median
}

bench_table() {
  local figure=$1 arm key
  local -a keys=()
  shift
  while [ "$1" != -- ]; do
    keys+=("$1")
    shift
  done
  shift
  printf '\n  %-18s' 'median'
  printf ' %16s' "${keys[@]}"
  echo
  for arm; do
    printf '  %-18s' "$arm"
    for key in "${keys[@]}"; do printf ' %16s' "$(bench_median "$figure" "$arm" "$key")"; done
    echo
  done
  echo
}

# The arms of a repetition are measured right after one another: their ratio is free of what drifts over a run.
bench_ratio() {
  awk -v f="$1" -v k="$2" -v a="$3" -v b="$4" '
    $1 == f && $4 == k && $2 == a { x[$3] = $5 }
    $1 == f && $4 == k && $2 == b { y[$3] = $5 }
    END { for (r in x) if (y[r] > 0) print x[r] / y[r] }' "$BENCH_VALUES" | sort -g | awk '
    { v[NR] = $1 }
    END { if (NR) printf "%.4g %.4g %.4g\n", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2, v[1], v[NR] }'
}

bench_result() {
  local figure=$1 name=$2 value=${3:--} goal=$4 note=${5-}
  bench_json "figure=$figure" "server=$BENCH_SERVER" "result=$name" "value=$value" "goal=$goal" "note=$note" >>"$BENCH_OUT"
  printf '%s: %s = %s (goal: %s)%s\n' "$figure" "$name" "$value" "$goal" "${note:+; $note}"
}

# The result of a ratio, with the range over the repetitions as its note.
bench_ratio_result() {
  local figure=$1 name=$2 goal=$3 key=$4 median least greatest
  read -r median least greatest < <(bench_ratio "$figure" "$key" "$5" "$6") || true
  bench_result "$figure" "$name" "$median" "$goal" "${least:+range $least to $greatest}"
}
