#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs files.py on /spate.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
timeout 200 "$spate" run -- python3 "$SPATE_SOURCE/tests/preload/files.py" < /dev/null
