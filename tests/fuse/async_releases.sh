#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs close files that were open for writing while the meta server does not answer. No worker of the mount waits for it.
. "$(dirname "$0")/lib.sh"
files=20
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mount_at kept threads=2
mount_at asked threads=2,noleases # each close waits there: what the other mount would show
for i in $(seq $files); do echo text > "$dir/kept/$i"; done

open_all() { for i in $(seq $files); do eval "exec $((i + 20))<> \"\$dir/$1/$i\""; done; }
close_all() { for i in $(seq $files); do eval "exec $((i + 20))<&-"; done; }
is() { [ "$(status "$1" "$2")" "$3" "$4" ]; }
meta=$(cut -d' ' -f1 "$dir/fs/run/server-1.pid")

# All closes are under way, and nobody waits for them.
open_all kept
stop "$meta"
close_all
wait_until is kept closing -eq $files
wait_until is kept workers_with_request -eq 0
kill -CONT "$meta"
wait_until is kept closing -eq 0

open_all asked
stop "$meta"
close_all
wait_until is asked workers_with_request -ge 5
kill -CONT "$meta"
# In the end the meta server has received all of them.
rm "$dir"/kept/*
"$spate" fsck > /dev/null
