#!/usr/bin/env bash
# Sourced by test.sh: test.sh in the folder of a major that this machine does not have (tools/debian.sh).
#
#   fc_inside ROOT MAJOR KEEP STAGE...    runs them there; ends with the status of that run
#
#   fc_inside_python PLACE                which Python is there: 3.13
#
# ROOT/build/servers/MAJOR is the folder, made before. Inside, ROOT is /project, and read-only but for build/.

fc_inside() {
  local root=$1 major=$2 inside_logs='' status=0
  inside_keep=$3
  shift 3
  local -a options=(--server "$major")
  [ "$inside_keep" -eq 0 ] || options+=(--keep)
  case ${FC_LOGS:-} in
    "$root/build/"*) inside_logs=/project${FC_LOGS#"$root"} ;;
  esac
  outside=$(mktemp -d "${TMPDIR:-/tmp}/fc-test.XXXXXX")
  inside=
  trap fc_inside_leave EXIT
  trap 'fc_inside_leave; exit 130' INT TERM HUP
  chmod 1777 "$outside"
  set -m
  fc_debian_run "$root/build/servers/$major" "$root" "$root/build" "$outside" /usr/bin/env -i PATH=/usr/sbin:/usr/bin \
    FC_EXTRA_CONF="${FC_EXTRA_CONF:-}" FC_TAP="${FC_TAP:-}" FC_ARMS="${FC_ARMS:-}" FC_RECOVERY="${FC_RECOVERY:-}" \
    FC_TORTURE="${FC_TORTURE:-}" FC_PLACE="${FC_PLACE:-}" FC_LOGS="$inside_logs" /project/test.sh "${options[@]}" "$@" </dev/null &
  inside=$!
  set +m
  wait "$inside" || status=$?
  inside=
  exit "$status"
}

# Inside is another test.sh, which cleans up on a signal; whatever it leaves ends with its namespaces.
fc_inside_leave() {
  trap - EXIT INT TERM HUP
  if [ -n "$inside" ]; then
    kill -TERM -- "-$inside" 2>/dev/null || true
    wait "$inside" 2>/dev/null || true
  fi
  if [ "$inside_keep" -eq 1 ]; then
    echo "its /tmp is $outside"
  else
    rm -rf "$outside"
  fi
}

fc_inside_python() {
  local python
  for python in "$1"/root/usr/bin/python3.[0-9]*; do
    [[ $python =~ /python(3\.[0-9]+)$ ]] && echo "${BASH_REMATCH[1]}"
  done
}
