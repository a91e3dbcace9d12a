#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kernel shows the source of a mount as the user gave it, so that programs find the mount by it.
[ "${APART:-}" ] || exec env APART=1 unshare -m --propagation private "$0" # the link in /sbin is for this script only
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root, for mount(8)'; exit 77; }
. "$(dirname "$0")/sbin.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
source=$dir/fs/spate.toml
mkdir "$dir/data" "$dir/line"
mounts+=("$dir/data" "$dir/line")

# shown SOURCE DIRECTORY: checks that every program shows SOURCE as mounted there, once.
shown() {
  equal "$(findmnt -no SOURCE "$2")" "$1"
  equal "$(findmnt -rno TARGET -S "$1")" "$2"
  equal "$(df --output=source "$2" | tail -1)" "$1"
  mount | grep -qF "$1 on $2 type fuse.spate "
  equal "$(awk -v at="$2" '$2 == at { print $1 }' /proc/mounts | sed 's/\\040/ /g')" "$1"
}

mount -t spate "$source" "$dir/data"
shown "$source" "$dir/data"
umount "$source"
fails 'not a mountpoint' mountpoint "$dir/data"
# A folder is shown as a folder. umount(8) takes that for a mount point, never for a source. Relative names become absolute.
(cd "$dir" && "$SPATE_BIN/spate-mount" ./data/../fs/ data)
shown "$dir/fs" "$dir/data"
umount "$dir/data"
"$spate" mount "$dir/data"
shown "$source" "$dir/data"
# An upgrade keeps the source, and a remount finds the mount by it.
"$spate" mount --upgrade "$dir/data"
mount -o remount,ro "$source"
equal "$(findmnt -no OPTIONS "$dir/data" | cut -d, -f1)" ro
umount "$source"
# The name has every character that is a separator elsewhere.
odd="$dir/a, b\\c"
ln -s "$dir/fs" "$odd"
"$SPATE_BIN/spate-mount" "$odd" "$dir/data"
equal "$(findmnt -no SOURCE "$dir/data")" "$odd"
umount "$dir/data"
# fsname= gives another name. The options that are shown of a mount can be used to mount it again.
mount -t spate -o fsname=store,default_permissions,user_id=0,group_id=0,lazytime,norelatime,nonempty,allow_other "$source" "$dir/data"
shown store "$dir/data"
umount store
fails 'no mount option is called "sync"' mount -t spate -o sync "$source" "$dir/data"

# mount -a mounts only what is not mounted yet.
printf '%s\n' "$source $dir/line spate _netdev,nofail 0 0" "$dir/fs $dir/data fuse.spate fsname=$dir/fs,ro 0 0" > "$dir/fstab"
for again in 1 2; do
  mount -a -T "$dir/fstab"
  shown "$source" "$dir/line"
  shown "$dir/fs" "$dir/data"
done
umount "$source"
mount -a -T "$dir/fstab"
shown "$source" "$dir/line"
umount "$source" "$dir/data"
