#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [quick] FRONTEND PROGRAM...: runs each PROGRAM.sh in a new folder of a file system of its own. FRONTEND is one of
#   mount     in a mounted directory          preload   below `spate run`          local   in a local folder, for comparison
#   plain     in a directory that is mounted with the options nogather and nodelegate
#   gather    in a directory that is mounted with the option nodelegate
#   delegate  in a directory that is mounted with the option nogather
# quick: does only what takes a few seconds. A script sees $FRONTEND, $work (its folder and working directory), $local (an empty local folder), and the
# functions of lib.sh.
# MOUNT_OPTIONS: options of `spate mount`. KEEP: keeps the folder if a script fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export SPATE_SOURCE=${SPATE_SOURCE:-$(dirname "$(dirname "$here")")}
: "${SPATE_BIN:=$SPATE_SOURCE/build/bin}"
if [ "${1:-}" = quick ]; then export QUICK=1; shift; fi
mode=${1:-}
frontend=$mode
options=
case $mode in
  plain) options=nogather,nodelegate ;;
  gather) options=nodelegate ;;
  delegate) options=nogather ;;
esac
if [ -n "$options" ]; then frontend=mount; MOUNT_OPTIONS=${MOUNT_OPTIONS:+$MOUNT_OPTIONS,}$options; fi
shift
dir=$(mktemp -d)
export HOME=$dir XDG_STATE_HOME=$dir/state SPATE_FS=$dir/fs TMPDIR=$dir
unset SPATE_PREFIX
. "$SPATE_SOURCE/tests/integration/ports.sh"
take_ports 4
spate=$SPATE_BIN/spate
failed=0
ran=0

running=

end() {
  [ -z "$running" ] || kill "$running" 2> /dev/null || true  # ended before the script: timeout(1) passes it on
  [ "$frontend" != mount ] || "$spate" umount -z "$dir/m" 2> /dev/null || true
  "$spate" down -q --force --dir "$dir/fs" > /dev/null 2>&1 || true
  [ -n "${KEEP:-}" ] && [ "$failed" = 1 ] && echo "kept: $dir" || rm -rf "$dir"
}
trap end EXIT
trap 'exit 143' TERM INT

case $frontend in
  mount)
    [ -r /dev/fuse ] && [ -w /dev/fuse ] || { echo "skipped: /dev/fuse cannot be used here"; exit 77; }
    ;;
  preload | local) ;;
  *) sed -n '3,10s/^# \?//p' "$0" >&2; exit 2 ;;
esac
if [ "$frontend" != local ]; then "$spate" up -q --dir "$dir/fs" --port "$port" --io 2; fi
case $frontend in
  mount) "$spate" mount -p "$dir/m" ${MOUNT_OPTIONS:+-o "$MOUNT_OPTIONS"}; tree=$dir/m; run=() ;;
  preload) tree=/spate; run=("$spate" run --) ;;
  local) mkdir "$dir/tree"; tree=$dir/tree; run=() ;;
esac

# A script says in its head: "# needs: COMMAND...", "# seconds: N" (it is ended after that time; otherwise after 60), and "# excused:
# REGEX" (what `spate check-binary` may say of its programs, because the script does not use it).
header() { sed -n "s/^# $2: //p" "$here/$1.sh" | head -n 1; }

covered() {
  ! "$spate" check-binary "$1" > "$dir/said" 2>&1 || return 0
  local excused
  excused=$(header "$name" excused)
  [ -z "$excused" ] || grep -vE "$excused" "$dir/said" > "$dir/left" || return 0
  echo "$name: the preload library does not cover it: $(cat "$dir/said")"
  return 1
}

for name in "$@"; do
  missing=()
  for program in $(header "$name" needs); do
    command -v "$program" > /dev/null || { missing+=("$program"); continue; }
    [ "$frontend" != preload ] || covered "$program" || failed=1
  done
  [ ${#missing[@]} = 0 ] || { echo "skipped: $name needs ${missing[*]}"; continue; }
  mkdir -p "$dir/local/$name"
  seconds=$(header "$name" seconds)
  SECONDS=0
  status=0
  FRONTEND=$frontend work=$tree/$name local=$dir/local/$name timeout -k 10 "${seconds:-60}" \
    "${run[@]}" bash "$here/lib.sh" "$here/$name.sh" > "$dir/said" 2>&1 < /dev/null &
  running=$!
  wait "$running" || status=$?
  running=
  last=$(tail -n 1 "$dir/said")
  case $status in
    0) echo "passed: $name on $mode, $SECONDS s"; ran=1; [ -z "${VERBOSE:-}" ] || cat "$dir/said" ;;
    77) echo "$last" ;;
    *) echo "failed: $name on $mode (status $status)"; tail -n 40 "$dir/said"; failed=1 ;;
  esac
done
did() { "$spate" mount --status "$dir/m" | grep -q "^$1 [1-9]" || { echo "failed: $1 is 0"; failed=1; }; }
case $mode$ran in
  gather1) case " $* " in *" tar "*) did gathered_writes ;; esac ;;  # not all of them write little by little
  delegate1) did queued_changes ;;
  mount1) [ -n "${MOUNT_OPTIONS:-}" ] || did queued_changes ;;
esac
[ $failed = 0 ] || exit 1
[ $ran = 1 ] || exit 77
