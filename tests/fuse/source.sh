#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kernel shows what was mounted as it was given, so that programs that go by it find the mount.
[ "${APART:-}" ] || exec env APART=1 unshare -m --propagation private "$0" # the link in /sbin is for this script only
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root, for mount(8)'; exit 77; }
. "$(dirname "$0")/sbin.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
source=$dir/fs/spate.toml
mkdir "$dir/data" "$dir/line"
mounts+=("$dir/data" "$dir/line")

# shown SOURCE DIRECTORY: every program says that SOURCE is mounted there, once.
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
# A folder is shown as a folder (which umount(8) takes for a mount point, never for a source); relative names are made absolute.
(cd "$dir" && "$SPATE_BIN/spate-mount" ./data/../fs/ data)
shown "$dir/fs" "$dir/data"
umount "$dir/data"
"$spate" mount "$dir/data"
shown "$source" "$dir/data"
# An upgrade leaves it; a remount finds it.
"$spate" mount --upgrade "$dir/data"
mount -o remount,ro "$source"
equal "$(findmnt -no OPTIONS "$dir/data" | cut -d, -f1)" ro
umount "$source"
# A name with everything that separates other things.
odd="$dir/a, b\\c"
ln -s "$dir/fs" "$odd"
"$SPATE_BIN/spate-mount" "$odd" "$dir/data"
equal "$(findmnt -no SOURCE "$dir/data")" "$odd"
umount "$dir/data"
# fsname= is another name; what is said of a mount may be said to mount it again.
mount -t spate -o fsname=store,default_permissions,user_id=0,group_id=0,lazytime,norelatime,nonempty,allow_other "$source" "$dir/data"
shown store "$dir/data"
umount store
fails 'no mount option is called "sync"' mount -t spate -o sync "$source" "$dir/data"

# mount -a mounts what is not mounted yet, and only that.
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
