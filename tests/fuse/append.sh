#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Many processes on two mounts append with O_APPEND: the file holds every record once, complete, and in the order of its writer.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at one
mount_at two cache=none
python3 "$(dirname "$0")/append.py" "$dir/one" "$dir/two"
