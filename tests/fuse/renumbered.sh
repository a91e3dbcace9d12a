#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount gets the device number of an earlier mount whose processes have not ended yet. It begins at once. Commands reach its supervisor,
# also after the processes of the earlier mount have ended.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at one
number=$(stat -c %d "$dir/one")
server=$(status one server)
supervisor=$(status one supervisor)
kill -STOP "$server" "$supervisor"
"$spate" umount -z "$dir/one"
mount_at two 2> "$dir/said"
[ ! -s "$dir/said" ] || { cat "$dir/said"; exit 1; }
[ "$(stat -c %d "$dir/two")" = "$number" ] || echo "the kernel gave another number, so this test shows nothing"
! grep -q 'nobody can call its supervisor' "$dir/fs/log/mount.log"
second=$(status two supervisor)
kill -CONT "$server" "$supervisor"
wait_until test ! -e "/proc/$supervisor"
equal "$(status two supervisor)" "$second"
"$spate" umount "$dir/two"
