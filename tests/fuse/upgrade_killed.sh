#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The process that serves a mount is killed while an upgrade waits for it. The new program follows nevertheless.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at one
mkdir "$dir/new"
cp "$SPATE_BIN/spate" "$SPATE_BIN/spate-mount" "$dir/new"

is_waiting() { [ "$(status one workers_with_request)" -gt 0 ]; }
hands_over() { grep -q 'handing over' "$dir/fs/log/mount.log"; }

# A call that waits for the meta server keeps the old program from handing over.
meta=$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")
old=$(status one server)
stop "$meta"
stat "$dir/one/nothing" 2> /dev/null &
call=$!
wait_until is_waiting
"$dir/new/spate" mount --upgrade "$dir/one" &
upgrade=$!
wait_until hands_over
kill -9 "$old"
kill -CONT "$meta"
wait "$upgrade"
equal "$(readlink "/proc/$(status one server)/exe")" "$dir/new/spate-mount"
if wait "$call"; then echo 'the call on a name that does not exist has succeeded'; exit 1; fi
grep -q "upgraded directory=$dir/one program=$dir/new/spate-mount" "$dir/fs/log/mount.log"
