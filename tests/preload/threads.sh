#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs threads.cc on a local folder, to show that its model is right, and then on /spate without and with leases.
. "$SPATE_SOURCE/tests/preload/lib.sh"
seed=${1:-1} rounds=${2:-600}
timeout 60 "$SPATE_BIN/preload_threads" "$dir/local/t" "$seed" "$rounds"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
timeout 150 "$spate" run -- "$SPATE_BIN/preload_threads" /spate/t "$seed" "$rounds" < /dev/null
timeout 150 "$spate" run --leases -- "$SPATE_BIN/preload_threads" /spate/u $((seed + 1)) "$rounds" < /dev/null
"$spate" fsck > /dev/null
