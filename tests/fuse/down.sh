#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `spate down` names the mounts that would wait. A mount without its servers says which server it waits for, and since when.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at 'one mount'
mount_at two
fails 'it is mounted' "$spate" down -q
fails 'umount .*one mount' "$spate" down
fails 'umount .*two' "$spate" down
fails '--force' "$spate" down
"$spate" umount "$dir/two"
"$spate" mount --status "$dir/one mount" | grep -q "^file_system $dir/fs/spate.toml\$"
! "$spate" mount --status "$dir/one mount" | grep waits_for
# `spate down` does not mention the mounts of another file system.
take_ports 2
"$spate" up -q --dir "$dir/other" --io 1 --port "$port"
"$spate" down -q --dir "$dir/other"

"$spate" down -q --force --dir "$dir/fs"
ls "$dir/one mount" > "$dir/listed" 2>&1 &
waiting=$!
for _ in $(seq 200); do
  "$spate" mount --status "$dir/one mount" > "$dir/status"
  ! grep -q waits_for "$dir/status" || break
  sleep 0.1
done
grep -q '^waits_for server 1 (tcp://127.0.0.1:[0-9]*) for [0-9]* s: it cannot be reached: nobody listens there$' "$dir/status"
"$spate" mount --status "$dir/one mount" --json | python3 -c 'import json, sys; assert "server 1" in json.load(sys.stdin)["waits_for"]'
# Nobody uses the mount before it has printed its first message.
fails 'mounted already' timeout 20 "$spate" mount "$dir/one mount"
for _ in $(seq 100); do ! grep -q 'operations wait' "$dir/fs/log/mount.log" || break; sleep 0.1; done
grep -q 'operations wait server="server 1 (tcp://127.0.0.1:[0-9]*)"' "$dir/fs/log/mount.log"

"$spate" up -q --dir "$dir/fs"
wait "$waiting"
[ ! -s "$dir/listed" ]
for _ in $(seq 100); do ! grep -q 'goes on' "$dir/fs/log/mount.log" || break; sleep 0.1; done
grep -q 'goes on server="server 1' "$dir/fs/log/mount.log"
"$spate" restart -q # mounts go on
ls "$dir/one mount"
"$spate" umount "$dir/one mount"
"$spate" down -q
