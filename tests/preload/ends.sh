#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes end while their other threads use files (ends.cc). After that the file system works as before.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
timeout 200 "$spate" run -- "$SPATE_BIN/preload_ends" /spate/ends 150
check 'goes on' '[ "$(cat /spate/ends)" = "some bytes" ]'
