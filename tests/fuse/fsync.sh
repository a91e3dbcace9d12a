#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fsync, O_SYNC and O_DSYNC on a mount reach the io servers, whichever open the kernel used to write the pages.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
for cache in auto writeback none; do
  mount_at "$cache" cache=$cache
  python3 "$(dirname "$0")/fsync.py" "$dir/$cache" "$cache" "$spate"
done
