#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs outside.py on /spate.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 1
timeout 100 "$spate" run -- python3 "$SPATE_SOURCE/tests/preload/outside.py" "$@" < /dev/null
