#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An atime that a program sets stays, though closes of earlier readers are still on their way to the meta server, also those of a process of the mount
# that was killed.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
meta=$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")
for options in noleases nogather,nodelegate gather,delegate; do
  mount_at "$options" "$options"
  mkdir "$dir/$options/$options"
  python3 "$(dirname "$0")/atime.py" "$dir/$options/$options" "$meta" "$(status "$options" server)"
  "$spate" umount "$dir/$options"
done
