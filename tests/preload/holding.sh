#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs holding.py on /spate. The brokers that held files and locks end soon after the last program.
. "$SPATE_SOURCE/tests/preload/lib.sh"
export SPATE_META_SESSION_LEASE=8s  # of a broker that is killed
"$spate" up -q --dir "$dir/fs" --port "$port" --io 2
timeout 250 "$spate" run -- python3 "$SPATE_SOURCE/tests/preload/holding.py" "$@" < /dev/null
for _ in $(seq 100); do
  pgrep -f "spate-broker $dir" > /dev/null || exit 0
  sleep 0.1
done
echo "spate-broker does not end:"
pgrep -af "spate-broker $dir"
exit 1
