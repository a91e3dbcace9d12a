#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reading on a read-only mount does not change atime, however the mount became read-only.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root, to mount again'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at rw noatime
mount_at ro ro,strictatime
mount_at both strictatime

old=1000000000
atime() { stat -c %X "$dir/rw/file"; }
make_old() { touch -a -d "@$old" "$dir/rw/file"; }
# The mount reports closes in the background. An upgrade waits for them.
settled() { "$spate" mount --upgrade "$dir/$1"; }
reads() { cat "$dir/$1/file" > /dev/null && stat "$dir/$1" > /dev/null && settled "$1"; }
# moves MOUNT: checks that reading there changes atime, at the latest a while after the close.
moves() {
  for _ in $(seq 100); do
    cat "$dir/$1/file" > /dev/null
    [ "$(atime)" = "$old" ] || return 0
    sleep 0.05
  done
  echo "reading on \"$1\" does not change atime"
  return 1
}

echo text > "$dir/rw/file"
make_old
reads ro
equal "$(atime)" "$old"
moves both

make_old
"$spate" mount -o remount,ro "$dir/both"
reads both
equal "$(atime)" "$old"
"$spate" mount -o remount,rw "$dir/both"
moves both

# A file is open while the mount becomes read-only, and stays open during an upgrade.
make_old
exec 5< "$dir/both/file"
"$spate" mount -o remount,ro "$dir/both"
read -r line <&5
equal "$line" text
exec 5<&-
settled both
equal "$(atime)" "$old"
exec 5< "$dir/both/file"
"$spate" mount --upgrade "$dir/both"
read -r line <&5
exec 5<&-
settled both
equal "$(atime)" "$old"
# A file is open while the mount becomes writable.
"$spate" mount -o remount,rw "$dir/ro"
moves ro
