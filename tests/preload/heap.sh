#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs preload_heap with an open file in /spate.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 1
timeout 60 "$spate" run -- "$SPATE_BIN/preload_heap" /spate/f
