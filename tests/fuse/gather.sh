#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount sends small writes together. Other mounts and programs see all of them, and no kill loses one.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at a nodelegate
mount_at b
mount_at plain nogather
timeout 120 python3 "$(dirname "$0")/gather.py" "$spate" "$dir/a" "$dir/b" || { cat "$dir/fs/log/mount.log"; exit 1; }
grep -q 'writes that the earlier process has gathered .* were taken over' "$dir/fs/log/mount.log"
equal "$(status plain gathered_writes)" ""
fails 'gather needs leases' "$spate" mount -p "$dir/c" -o gather,noleases
fails 'gather works with cache=auto only' "$spate" mount -p "$dir/c" -o gather,cache=writeback
for options in noleases cache=none nogather; do
  mount_at "$options" "$options"
  equal "$(status "$options" gathered_writes)" ""
done
# Nothing is left behind when the directory is unmounted while a program writes.
timeout 60 python3 "$(dirname "$0")/gather.py" "$spate" "$dir/a" "$dir/b" unmounted
