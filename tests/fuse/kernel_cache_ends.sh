#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# attr_cache=kernel with long leases: nothing old is left in the cache after callers were killed or a connection was ended by force.
. "$(dirname "$0")/lib.sh"
export SPATE_META_SESSION_LEASE='60 s'  # of a lease a quarter
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at a attr_cache=kernel
mount_at plain noleases
[ "$(cat "/proc/$PPID/wchan")" != 0 ] || { echo 'skipped: this kernel does not show what a process waits for'; exit 77; }
python3 "$(dirname "$0")/kernel_cache_ends.py" killed "$dir/a" "$dir/plain" "$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")"

[ "$(id -u)" = 0 ] || exit 0
mkdir "$dir/ctl" && mount -t fusectl none "$dir/ctl" 2> /dev/null || { echo 'the file system of FUSE connections cannot be mounted here'; exit 0; }
mounts+=("$dir/ctl")
python3 "$(dirname "$0")/kernel_cache_ends.py" aborted "$dir/a" "$dir/plain" "$dir/ctl/$(mountpoint -d "$dir/a" | cut -d: -f2)/abort"
