#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With attr_cache=names the kernel keeps names in directories that are delegated to its mount, and never answers with a name that another mount has changed.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
others="$([ "$(id -u)" != 0 ] || echo ,allow_other)"
mount_at a attr_cache=names
mount_at b nogather,attr_cache=names$others
mount_at c
names=yes
python3 "$(dirname "$0")/delegated_names.py" epochs || names=no
python3 "$(dirname "$0")/delegated_names.py" requests "$spate" "$dir/a" $names
python3 "$(dirname "$0")/delegated_names.py" changes "$dir/a" "$dir/c" ''
python3 "$(dirname "$0")/delegated_names.py" changes "$dir/b" "$dir/a" ''
python3 "$(dirname "$0")/delegated_names.py" changes "$dir/a" "$dir/c" "kill -9 \$('$spate' mount --status '$dir/a' | sed -n 's/^server //p')"
python3 "$(dirname "$0")/delegated_names.py" changes "$dir/a" "$dir/c" "'$spate' mount --upgrade '$dir/a'"
python3 "$(dirname "$0")/kernel_cache.py" changes "$dir/a" "$dir/b" "$dir/c"
python3 "$(dirname "$0")/kernel_cache.py" random "$dir/a" "$dir/b" "$dir/c"
python3 "$(dirname "$0")/kernel_cache.py" race "$dir/a" "$dir/b"
