#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mount(8) mounts with and without a line of fstab, by /sbin/mount.spate.
[ "${APART:-}" ] || exec env APART=1 unshare -m --propagation private "$0" # the link in /sbin is for this script only
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root, for mount(8)'; exit 77; }
. "$(dirname "$0")/sbin.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mkdir "$dir/data" "$dir/line"
mounts+=("$dir/data" "$dir/line")
mount -t spate -o allow_other,cache=none "$dir/fs/spate.toml" "$dir/data"
equal "$(findmnt -no FSTYPE "$dir/data")" fuse.spate
echo text > "$dir/data/file"
# The log has what the mount and the kernel have agreed.
grep -q 'connected to the kernel protocol=7.[0-9]* capable=0x[0-9a-f]* want=0x[0-9a-f]* max_write=1048576' "$dir/fs/log/mount.log"
# A remount changes the kernel's options, and names those that it cannot change.
mount -o remount,ro "$dir/data"
fails 'Read-only' touch "$dir/data/new"
equal "$(cat "$dir/data/file")" text
mount -o remount,rw,noexec "$dir/data"
touch "$dir/data/new"
findmnt -no OPTIONS "$dir/data" | grep -q '^rw,nosuid,nodev,noexec'
# Only the requested options change, also if the caller does not know how it is mounted.
options() { findmnt -no OPTIONS "$dir/data" | cut -d, -f1-4; }
"$spate" mount -o remount,ro,dev "$dir/data"
equal "$(options)" ro,nosuid,noexec,relatime
/sbin/mount.spate "$dir/fs/spate.toml" "$dir/data" -o remount,rw
equal "$(options)" rw,nosuid,noexec,relatime
"$spate" mount -o remount,nodev "$dir/data"
# A remount that wants to change another option is refused as a whole, and names the option. An option that has that value already is accepted.
for option in cache=auto noatime attr_cache=kernel soft acces; do
  fails "$option" mount -o "remount,ro,$option" "$dir/data"
  fails "$option" /sbin/mount.spate "$dir/fs/spate.toml" "$dir/data" -o "remount,ro,$option"
  equal "$(options)" rw,nosuid,nodev,noexec
done
mount -o remount,exec,cache=none "$dir/data"
equal "$(options)" rw,nosuid,nodev,relatime
mount -o remount,suid "$dir/data"
equal "$(options | cut -d, -f1-3)" rw,nodev,relatime
code=0
"$SPATE_BIN/spate-mount" "$dir/fs/spate.toml" "$dir" -o remount,ro 2> "$dir/said" || code=$?
equal "$code" 32
grep -q "no file system of Spate is mounted at $dir" "$dir/said"
umount "$dir/data"
# A line of fstab may name the type as the kernel shows it, and options of the kernel.
mount -t fuse.spate -o allow_other "$dir/fs/spate.toml" "$dir/data"
equal "$(cat "$dir/data/file")" text
umount "$dir/data"
echo "$dir/fs/spate.toml $dir/line fuse.spate _netdev,noexec,allow_other 0 0" > "$dir/fstab"
mount -T "$dir/fstab" "$dir/line"
mount -T "$dir/fstab" -o remount,ro "$dir/line"
equal "$(findmnt -no OPTIONS "$dir/line" | cut -d, -f1-4)" ro,nosuid,nodev,noexec
mount -T "$dir/fstab" -o remount,exec "$dir/line"
equal "$(findmnt -no OPTIONS "$dir/line" | cut -d, -f1-3)" rw,nosuid,nodev
umount "$dir/line"
fails 'nothing is mounted' "$spate" umount "$dir/line"
echo "$dir/fs/spate.toml $dir/line spate _netdev,noauto,nofail,x-systemd.automount,ro,allow_other 0 0" > "$dir/fstab"
mount -T "$dir/fstab" "$dir/line"
equal "$(cat "$dir/line/file")" text
fails 'Read-only' touch "$dir/line/new"
umount "$dir/line"
echo "$dir/nothing/spate.toml $dir/line spate _netdev 0 0" > "$dir/fstab"
fails "$dir/nothing/spate.toml" mount -T "$dir/fstab" "$dir/line"
