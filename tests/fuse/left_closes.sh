#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The process that serves a mount is replaced or killed after a program has closed a file, and before the meta server knows of the
# close. The next process ends the open, so that a removed file is deleted.
. "$(dirname "$0")/lib.sh"
export SPATE_CLIENT_DEADLINE='1 s'
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at one soft
meta=$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")
log=$dir/fs/log/mount.log
datafiles() { find "$dir"/fs/server-*/target-0/d -type f | wc -l; }
gave_up() { [ "$(grep -c 'close failed' "$log")" -ge "$1" ]; }
is_serving() { [ "$(status one server)" != "$1" ] && [ -n "$(status one server)" ]; }
none_left() { [ "$(datafiles)" -eq 0 ]; }

closes=0
for how in upgrade kill; do
  echo text > "$dir/one/file"
  exec 5< "$dir/one/file"
  exec 6<> "$dir/one/file"
  stop "$meta"
  exec 5<&- 6<&-
  closes=$((closes + 2))
  wait_until gave_up $closes
  server=$(status one server)
  if [ $how = upgrade ]; then "$spate" mount --upgrade "$dir/one"; else kill -9 "$server"; fi
  wait_until is_serving "$server"
  kill -CONT "$meta"
  timeout 60 rm "$dir/one/file"
  wait_until none_left
done
