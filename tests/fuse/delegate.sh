#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount answers changes in new directories itself. Other mounts see all of them, and no kill loses one or makes one twice.
. "$(dirname "$0")/lib.sh"
export SPATE_META_SESSION_LEASE='60 s'  # a quarter of it is the time for 12,000 changes while the meta server stands still
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at a nogather
mount_at b nogather,nodelegate
mount_at both
mount_at without noleases
equal "$(status b queued_changes)" ""
equal "$(status without queued_changes)" ""
fails 'delegate needs leases' "$spate" mount -p "$dir/c" -o delegate,noleases
for name in a both; do
  timeout 280 python3 "$(dirname "$0")/delegate.py" "$spate" "$dir/$name" "$dir/b" "$dir/fs" || { tail -50 "$dir/fs/log/mount.log"; exit 1; }
done
grep -q 'changes that the earlier process has queued were taken over' "$dir/fs/log/mount.log"
equal "$(status a queued_changes_lost)" 0
# Nothing is left behind when the directory is unmounted. Without its supervisor a mount queues nothing.
make() { for i in $(seq 200); do : > "$1/f$i"; done; }
mkdir "$dir/a/left" && make "$dir/a/left"
"$spate" umount "$dir/a"
equal "$(ls "$dir/b/left" | wc -l)" 200
kill -9 "$(status both supervisor)"
wait_until grep -q 'the supervisor of the mount has gone' "$dir/fs/log/mount.log"
server=$(pgrep -f "serve=.*spate.toml $dir/both" | head -1)
mkdir "$dir/both/alone" && make "$dir/both/alone"
kill -9 "$server"
equal "$(ls "$dir/b/alone" | wc -l)" 200
