#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs leases.py on /spate. A lease lasts two seconds, a quarter of the session's.
. "$SPATE_SOURCE/tests/preload/lib.sh"
export SPATE_META_SESSION_LEASE=8s
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
timeout 150 "$spate" run --leases -- python3 "$SPATE_SOURCE/tests/preload/leases.py" < /dev/null
