#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs on two mounts lock files by record locks, OFD locks and flock: waits, signals, deadlocks, killed holders.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at one
mount_at two
python3 "$(dirname "$0")/locks.py" "$dir/one" "$dir/two"
