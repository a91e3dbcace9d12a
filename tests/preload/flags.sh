#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs preload_flags on a file in /spate.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 1
timeout 100 "$spate" run -- "$SPATE_BIN/preload_flags" /spate/f "${1:-400}"
