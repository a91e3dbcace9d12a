#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Threads that write to different places of one file past the kernel's pages do not wait for each other.
. "$(dirname "$0")/lib.sh"
printf '%s\n' 6.9 "$(uname -r)" | sort -VC || { echo 'skipped: before Linux 6.9 the kernel lets only one direct write of a file run at a time'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at none cache=none
mount_at pages
is() { [ "$(status "$1" workers_with_request)" -eq "$2" ]; }
io=$(cut -d' ' -f1 "$dir/fs/run/server-2.pid")

# together MOUNT FLAG: four threads make one write each. All four reach the mount while the io server stands still.
together() {
  local writer
  wait_until is "$1" 0
  python3 "$(dirname "$0")/parallel_writes.py" "$dir/$1/file" "$2" < <(wait_until test -e "$dir/begin") &
  writer=$!
  wait_until test -e "$dir/$1/file"
  wait_until is "$1" 0
  stop "$io"
  touch "$dir/begin"
  wait_until is "$1" 4
  kill -CONT "$io"
  wait "$writer"
  rm "$dir/begin" "$dir/$1/file"
}
together none 0
together pages O_DIRECT
