#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The process that serves a mount is killed while an upgrade waits for it: the new program follows all the same.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at one
mkdir "$dir/new"
cp "$SPATE_BIN/spate" "$SPATE_BIN/spate-mount" "$dir/new"

server() { "$spate" mount --status "$dir/one" | awk '$1 == "server" { print $2 }'; }

# A call that waits for the meta server keeps the old program from handing over.
meta=$(pgrep -f "spated --config $dir/fs/spate.toml --server 1 ")
old=$(server)
kill -STOP "$meta"
stat "$dir/one/nothing" 2> /dev/null &
call=$!
sleep 0.5
"$dir/new/spate" mount --upgrade "$dir/one" &
upgrade=$!
sleep 1
kill -9 "$old"
kill -CONT "$meta"
wait "$upgrade"
equal "$(readlink "/proc/$(server)/exe")" "$dir/new/spate-mount"
if wait "$call"; then echo 'there is something'; exit 1; fi
grep -q "upgraded directory=$dir/one program=$dir/new/spate-mount" "$dir/fs/log/mount.log"
