# SPDX-License-Identifier: Apache-2.0
# Sourced. Makes the folder $dir for a file system in $dir/fs and mounts below $dir. Removes all of them at the end. The test fails if a process of a
# mount does not end with it.
set -euo pipefail
[ -r /dev/fuse ] && [ -w /dev/fuse ] || { echo "skipped: /dev/fuse cannot be used here"; exit 77; }
dir=$(mktemp -d)
export HOME=$dir XDG_STATE_HOME=$dir/state SPATE_FS=$dir/fs
. "$SPATE_SOURCE/tests/integration/ports.sh"
take_ports 4
spate=$SPATE_BIN/spate
mounts=()

end() {
  local status=$? mount left
  kill -9 $(jobs -p) 2> /dev/null || true  # a program that still uses a mount would keep it
  for mount in "${mounts[@]}"; do "$spate" umount -z "$mount" >> "$dir/unmounted" 2>&1 || true; done
  # A mount sends the rest of what it has acknowledged before the servers end.
  for _ in $(seq 20); do pgrep -f "spate-mount.* $dir/" > /dev/null || break; sleep 0.05; done
  "$spate" down -q --force --dir "$dir/fs" > /dev/null 2>&1 || true
  for _ in $(seq 150); do
    left=$(pgrep -f "spate-mount.* $dir/") || break
    sleep 0.1
  done
  if [ -n "$left" ]; then
    echo "processes of mounts have not ended:"
    cat "$dir/unmounted"
    grep -s " $dir/" /proc/mounts || true
    for pid in $left; do tr '\0' ' ' < "/proc/$pid/cmdline"; echo; kill -9 "$pid"; done
    status=1
  fi
  rm -rf "$dir"
  exit "$status"
}
trap end EXIT

# stop PID...: stops the processes and returns when they stand still. After the signal alone, they still answer for a while on a busy machine.
stop() {
  local pid
  kill -STOP "$@"
  for pid in "$@"; do wait_until stands_still "$pid"; done
}
stands_still() { ! grep -h '^State:' /proc/"$1"/task/*/status | grep -qv 'T (stopped)'; }
gone() { ! grep -hs '^State:' /proc/"$1"/task/*/status | grep -qv '[ZX] ('; }

# mount_at NAME [OPTIONS]: mounts at $dir/NAME.
mount_at() {
  mounts+=("$dir/$1")
  "$spate" mount -p "$dir/$1" ${2:+-o "$2"}
}

# fails TEXT COMMAND...: checks that the command fails and prints TEXT.
fails() {
  local text=$1
  shift
  if "$@" > "$dir/said" 2>&1; then echo "did not fail: $*"; return 1; fi
  grep -q -- "$text" "$dir/said" || { echo "\"$*\" does not say \"$text\":"; cat "$dir/said"; return 1; }
}

# asked OPERATION [SERVER]: prints how many such requests the meta server, or the named server, has answered.
asked() {
  "$spate" stats "${2:-1}" --prometheus | awk -v op="op=\"$1\"" '
    index($1, "spate_rpc_request_ns_count") == 1 && index($1, op) { sum += $2 } END { print sum + 0 }'
}

# status NAME WHAT: prints a value that `spate mount --status` shows of the mount.
status() { "$spate" mount --status "$dir/$1" | sed -n "s/^$2 //p"; }

# wait_until COMMAND...: repeats the command until it succeeds, for a minute at most.
wait_until() {
  local end=$((SECONDS + 60))
  until "$@"; do
    [ $SECONDS -lt $end ] || { echo "did not succeed within a minute: $*"; return 1; }
    sleep 0.02
  done
}

# equal WHAT WANTED: checks that two strings are equal.
equal() { [ "$1" = "$2" ] || { echo "is \"$1\", should be \"$2\""; return 1; }; }
