#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Mounts with default options: the kernel keeps attributes for a tick of its clock, so that it need not ask for what it has just looked up. It never answers
# with what has changed meanwhile.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
others="$([ "$(id -u)" != 0 ] || echo allow_other)"
mount_at a "$others"
mount_at b
mount_at c cache=none
python3 "$(dirname "$0")/brief_copies.py" requests "$spate" "$dir/a"
python3 "$(dirname "$0")/brief_copies.py" changes "$dir/a" "$dir/b"
python3 "$(dirname "$0")/kernel_cache.py" changes "$dir/a" "$dir/b" "$dir/c"
python3 "$(dirname "$0")/kernel_cache.py" random "$dir/a" "$dir/b" "$dir/c"
python3 "$(dirname "$0")/kernel_cache.py" busy "$dir/a" "$dir/b"
python3 "$(dirname "$0")/kernel_cache.py" race "$dir/a" "$dir/b"
