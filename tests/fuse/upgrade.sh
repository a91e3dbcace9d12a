#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# upgrade.sh [UPGRADES [KILLS]]: upgrades and kills the process that serves a mount while programs use the mount.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at one
mount_at two
if ! python3 "$(dirname "$0")/upgrade.py" "$spate" "$dir/one" "$dir/two" "${1:-3}" "${2:-2}"; then
  cat "$dir/fs/log/mount.log"
  exit 1
fi
grep -q "upgraded directory=$dir/one" "$dir/fs/log/mount.log"
fails 'nothing is mounted' "$spate" mount --upgrade "$dir/fs"
fails 'has no supervisor' "$spate" mount --upgrade /proc

# The supervisor of a mount and the process that serves it end with the mount.
supervisor_of() { pgrep -f "spate-mount $dir/fs/spate.toml $1\$"; }
gone() { for _ in $(seq 100); do kill -0 "$1" 2> /dev/null || return 0; sleep 0.1; done; return 1; }

# A mount without its supervisor is served until it is unmounted.
supervisor=$(supervisor_of "$dir/two")
server=$(pgrep -P "$supervisor")
kill -9 "$supervisor"
echo alone > "$dir/two/alone" && equal "$(cat "$dir/one/alone")" alone
fails 'has no supervisor' "$spate" mount --upgrade "$dir/two"
"$spate" umount "$dir/two"
gone "$server"

# The supervisor gives up a process that does nothing but crash, and unmounts.
mount_at crashes
supervisor=$(supervisor_of "$dir/crashes")
for i in 1 2 3 4 5; do
  for _ in $(seq 100); do server=$(pgrep -P "$supervisor" -f -- --serve) && break; sleep 0.05; done
  [ "$i" = 5 ] || { kill -9 "$server" && gone "$server" && test -d "$dir/crashes/."; }
done
kill -9 "$server"
gone "$supervisor"
fails 'is not a mountpoint' mountpoint "$dir/crashes"
grep -q "given up directory=$dir/crashes why=\"it crashed 5 times" "$dir/fs/log/mount.log"

# A signal ends a mount in the foreground and leaves nothing behind.
mkdir "$dir/front" && mounts+=("$dir/front")
"$spate" mount -f "$dir/front" 2> "$dir/front.log" &
supervisor=$!
for _ in $(seq 100); do mountpoint -q "$dir/front" && break; sleep 0.05; done
echo x > "$dir/front/x"
server=$(pgrep -P "$supervisor")
"$spate" mount --upgrade "$dir/front" && gone "$server" && equal "$(cat "$dir/front/x")" x
server=$(pgrep -P "$supervisor")
kill -TERM "$supervisor"
wait "$supervisor"
gone "$server"
fails 'is not a mountpoint' mountpoint "$dir/front"
