#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Many calls wait for a server that stands still. The mount has no more worker threads than its memory allows. All calls end
# when the server goes on.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
fails 'memory: is a size' "$spate" mount -p "$dir/none" -o memory=1MiB
mount_at one memory=16MiB,threads=2,noleases
limit=$(status one workers_at_most)
[ "$limit" -ge 4 ] && [ "$limit" -le 8 ]
calls=$((3 * limit))
for i in $(seq $calls); do echo "$i" > "$dir/one/$i"; done

is() { [ "$(status one "$1")" -eq "$2" ]; }
meta=$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")
stop "$meta"
for i in $(seq $calls); do stat "$dir/one/$i" > /dev/null & done
wait_until is workers_with_request "$limit"
is workers "$limit"
[ "$(status one worker_memory_at_most_bytes)" -le 16777216 ]
kill -CONT "$meta"
for i in $(seq $calls); do wait -n; done
wait_until is workers_with_request 0
equal "$(cat "$dir/one/$calls")" "$calls"
