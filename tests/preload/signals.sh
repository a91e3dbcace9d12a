#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs signals.cc on /spate.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
timeout 100 "$spate" run -- "$SPATE_BIN/preload_signals" < /dev/null
