#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs map files whose pages the kernel does not keep: they are open with O_DIRECT, or on a mount without a cache.
. "$(dirname "$0")/lib.sh"
[ "$(printf '%s\n' 6.6 "$(uname -r)" | sort -V | head -1)" = 6.6 ] || { echo 'skipped: Linux before 6.6 cannot map such files'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at none cache=none
mount_at auto
mount_at back cache=writeback
direct=$(python3 -c 'import os; print(os.O_DIRECT)')
maps() { timeout 60 python3 "$(dirname "$0")/maps.py" "$dir/$1" "$dir/none" "$2"; }
maps auto "$direct"
maps back "$direct"
maps none 0
maps none "$direct"
# What was agreed with the kernel holds for the next process of the mount.
"$spate" mount --upgrade "$dir/none"
maps none "$direct"
