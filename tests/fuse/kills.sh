#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kills.sh [MOUNTS]: kills the process that serves a mount, four times on each of a few mounts. After a fifth time the supervisor gives up.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port" --trove mem
for i in $(seq "${1:-3}"); do
  mount_at "m$i"
  timeout 60 python3 "$(dirname "$0")/kills.py" "$dir/m$i" 4 || { cat "$dir/fs/log/mount.log"; exit 1; }
  "$spate" umount "$dir/m$i"
done
