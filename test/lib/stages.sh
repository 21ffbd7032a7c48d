#!/usr/bin/env bash
# Sourced by test.sh: the stages, one file each in test/stages/.
#
#   fc_stage_load DIR           reads the heads of all of them; false if one is wrong, which it says
#   fc_stage_names MAJOR WHEN   those that this major has, in their order; WHEN is always, or named: run only when named
#   fc_stage_head NAME KEY      what the head says, on one line; empty if nothing
#   fc_stage_file NAME
#   fc_stage_packages NAME...   the Debian packages that they need
#   fc_stage_table MAJOR        all that the heads say, for readers
#
# NN-NAME.sh defines the function `stage`, and begins with a head: lines "# KEY: what", continued by lines that are
# indented, to the first line that is neither. The keys:
#
#   Proves              what is known when it has passed
#   Majors              those it runs on
#   Minutes             about, on 2 cores
#   Packages            of Debian, beyond those that all need (test.sh); none if it does not say
#   Packages of root    more, when root runs it
#   Packages of 15      more, on 15: in the folders of other majors is only what all stages need
#   Fetches             what comes from the network once: python, docs, python-beside for the Python that is in a folder with the
#                       server (tools/python.sh), upstream (test/upstream/fetch.sh), trixie (test/package/trixie.sh)
#   Rights              any (if it does not say), or root ... (without, it is left out); what more root gets after a semicolon
#   Build               yes (if it does not say) or no: whether the stage build has to come before
#   When                named: only when it is named
#   Guard               minutes after which it hangs, or none; not a measure, and 40 for most

declare -A fc_stage_heads=()
fc_stage_all=()

fc_stage_load() {
  local file name key value status=0
  for file in "$1"/[0-9][0-9]-*.sh; do
    name=${file##*/[0-9][0-9]-}
    name=${name%.sh}
    fc_stage_all+=("$name")
    fc_stage_heads["$name file"]=$file
    while IFS=$'\t' read -r key value; do
      case $key in
        Proves | Majors | Packages | 'Packages of root' | 'Packages of 15' | Fetches | Rights | Minutes | Build | When | Guard)
          fc_stage_heads["$name $key"]=$value
          ;;
        *)
          echo "$file: the head says \"$key\", which test/lib/stages.sh does not know" >&2
          status=1
          ;;
      esac
    done < <(awk '
      NR == 1 { next }
      match($0, /^# [A-Z][A-Za-z0-9 ]*: /) {
        if (text != "") print text
        text = substr($0, 3, RLENGTH - 4) "\t" substr($0, RLENGTH + 1)
        next
      }
      /^#   / && text != "" { text = text " " substr($0, 5); next }
      { exit }
      END { if (text != "") print text }' "$file")
    : "${fc_stage_heads["$name Packages"]:=none}" "${fc_stage_heads["$name Rights"]:=any}" "${fc_stage_heads["$name Build"]:=yes}"
    for key in Proves Majors Minutes; do
      if [ -z "${fc_stage_heads["$name $key"]:-}" ]; then
        echo "$file: the head does not say \"$key\"" >&2
        status=1
      fi
    done
  done
  return "$status"
}

fc_stage_head() { echo "${fc_stage_heads["$1 $2"]:-}"; }

fc_stage_file() { echo "${fc_stage_heads["$1 file"]}"; }

fc_stage_names() {
  local name
  for name in "${fc_stage_all[@]}"; do
    [[ " ${fc_stage_heads["$name Majors"]} " == *" $1 "* ]] || continue
    [ "${fc_stage_heads["$name When"]:-always}" = "$2" ] || continue
    echo "$name"
  done
}

fc_stage_packages() {
  local name packages
  for name in "$@"; do
    packages=${fc_stage_heads["$name Packages"]}
    [ "$(id -u)" -ne 0 ] || packages+=" ${fc_stage_heads["$name Packages of root"]:-}"
    [ "${major:-15}" -ne 15 ] || packages+=" ${fc_stage_heads["$name Packages of 15"]:-}"
    # shellcheck disable=SC2086  # they are words
    printf '%s\n' $packages
  done | sed '/^none$/d' | sort -u
}

fc_stage_table() {
  local name row='%-16s %-8s %-15s %-6s %s\n'
  # shellcheck disable=SC2059  # the format of all lines
  printf "$row" STAGE MINUTES MAJORS BUILD 'RIGHTS; PACKAGES'
  for name in $(fc_stage_names "$1" always) $(fc_stage_names "$1" named); do
    # shellcheck disable=SC2059
    printf "$row" "$name" "$(fc_stage_head "$name" Minutes | grep -oE '^[0-9]+')" "$(fc_stage_head "$name" Majors)" \
      "$(fc_stage_head "$name" Build)" "$(fc_stage_head "$name" Rights); packages: $(fc_stage_packages "$name" | paste -sd ' ' | grep . || echo none)"
    { [ -z "$(fc_stage_head "$name" When)" ] || printf 'Only when it is named. '; fc_stage_head "$name" Proves; } |
      fold -s -w 100 | sed 's/^/    /; s/ *$//'
  done
}
