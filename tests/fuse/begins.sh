#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `spate mount` says where it cannot begin, and that nothing of it stays.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mkdir "$dir/one"
: > "$dir/file"
fails 'is a file' "$spate" mount "$dir/file"
fails 'it is a file' "$SPATE_BIN/spate-mount" "$dir/fs" "$dir/file"
mount_at one
fails 'mounted already' "$spate" mount "$dir/one"

# A folder that is called like the type is none.
mkdir "$dir/typed"
ln -s fs "$dir/spate"
mounts+=("$dir/typed")
(cd "$dir" && "$SPATE_BIN/spate-mount" -t spate spate typed)
mountpoint -q "$dir/typed"
"$spate" umount "$dir/typed"
fails 'log: takes an absolute path' "$spate" mount "$dir/typed" -o log=mount.log

# Its processes are killed: what is left in the name space can be taken away.
# shellcheck disable=SC2046
kill -9 $(status one supervisor) $(status one server)
fails 'not connected\|connection abort' ls "$dir/one"
fails 'a mount that has ended' "$spate" mount "$dir/one"
"$spate" umount "$dir/one"
mount_at one
"$spate" umount "$dir/one"

# A server that is away for a while is waited for, as long as the command is.
meta=$(pgrep -f "spated --config $dir/fs/spate.toml --server 1 ")
stop "$meta"
setsid "$spate" mount "$dir/one" 2> "$dir/said" &
command=$!
for _ in $(seq 100); do ! grep -q 'has waited for server 1' "$dir/said" || break; sleep 0.1; done
grep -q 'has waited for server 1' "$dir/said"
kill -TERM -- "-$command"
wait "$command" && exit 1
for _ in $(seq 100); do pgrep -f "spate.toml $dir/one\$" > /dev/null || break; sleep 0.1; done
if pgrep -f "spate.toml $dir/one\$"; then echo 'it still waits'; exit 1; fi
kill -CONT "$meta"
fails 'is not a mountpoint' mountpoint "$dir/one"

# One that was stopped is not.
"$spate" down -q
fails 'is not running' timeout 20 "$spate" mount "$dir/one"
