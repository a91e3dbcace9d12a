#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A directory is unmounted while the servers are away. Its mount still sends what it has acknowledged when they come back.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at one
mkdir "$dir/one/d"
echo first > "$dir/one/d/first"
supervisor=$(status one supervisor)
mapfile -t daemons < <(awk '{ print $1 }' "$dir"/fs/run/server-*.pid)
kill -9 "${daemons[@]}"
for i in 1 2 3; do echo "text $i" > "$dir/one/d/$i"; done
"$spate" umount "$dir/one"
sleep 6  # longer than a mount waits that is told to end
! gone "$supervisor" || { echo "the mount has given up what it has acknowledged"; tail -3 "$dir/fs/log/mount.log"; exit 1; }
"$spate" up -q --dir "$dir/fs"
wait_until gone "$supervisor"
mount_at two
for i in 1 2 3; do equal "$(cat "$dir/two/d/$i")" "text $i"; done
equal "$(cat "$dir/two/d/first")" first
