#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program reads what it has written, also while other programs open the file, which drops the kernel's pages, and read it through maps.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at m
mount_at gather gather
python3 "$(dirname "$0")/page_order.py" "$dir/m/file"
python3 "$(dirname "$0")/page_order.py" "$dir/gather/file"
