#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NFS servers and backup programs open files by file handles for which the kernel knows no name. The mount finds these files.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root, for open_by_handle_at'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at gives
for options in auto noleases attr_cache=kernel allow_other; do
  mount_at "$options" "${options/#auto/cache=auto}"
  timeout 60 python3 "$(dirname "$0")/handles.py" "$dir/gives" "$dir/$options"
  rm -r "$dir/gives/a"
done
