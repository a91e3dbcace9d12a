#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Directories and files that are removed while programs have them open: fstat works, also after the process of the mount was killed or upgraded.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at other
for options in noleases nogather,nodelegate gather,delegate; do
  mount_at "$options" "$options"
  mkdir "$dir/$options/$options"
  python3 "$(dirname "$0")/removed_open.py" "$dir/$options/$options" "$dir/other/$options" "$spate"
  "$spate" umount "$dir/$options"
done
