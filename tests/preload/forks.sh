#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs preload_forks on two files in /spate.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 1
echo a | "$spate" put spate:/a
echo b | "$spate" put spate:/b
timeout 100 "$spate" run -- "$SPATE_BIN/preload_forks" /spate/a /spate/b "${1:-300}"
