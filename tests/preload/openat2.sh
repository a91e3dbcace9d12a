#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs openat2.py on /spate and on the kernel's own file system.
. "$SPATE_SOURCE/tests/preload/lib.sh"
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
timeout 100 "$spate" run -- python3 "$SPATE_SOURCE/tests/preload/openat2.py" "$dir/local" < /dev/null
