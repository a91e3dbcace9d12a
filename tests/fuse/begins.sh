#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If `spate mount` cannot begin, it says why and leaves nothing behind.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
mkdir "$dir/one"
: > "$dir/file"
fails 'is a file' "$spate" mount "$dir/file"
fails 'it is a file' "$SPATE_BIN/spate-mount" "$dir/fs" "$dir/file"
mount_at one
fails 'mounted already' "$spate" mount "$dir/one"

# A folder with the name of the type is not taken for the type.
mkdir "$dir/typed"
ln -s fs "$dir/spate"
mounts+=("$dir/typed")
(cd "$dir" && "$SPATE_BIN/spate-mount" -t spate spate typed)
mountpoint -q "$dir/typed"
"$spate" umount "$dir/typed"
fails 'log: takes an absolute path' "$spate" mount "$dir/typed" -o log=mount.log

# Its processes are killed. What is left in the name space can be removed.
# shellcheck disable=SC2046
kill -9 $(status one supervisor) $(status one server)
fails 'not connected\|connection abort' ls "$dir/one"
fails 'a mount that has ended' "$spate" mount "$dir/one"
"$spate" umount "$dir/one"
mount_at one
"$spate" umount "$dir/one"

# The command waits for a server that is away for a while.
meta=$(pgrep -f "spated --config $dir/fs/spate.toml --server 1 ")
stop "$meta"
setsid "$spate" mount "$dir/one" 2> "$dir/said" &
command=$!
for _ in $(seq 100); do ! grep -q 'has waited for server 1' "$dir/said" || break; sleep 0.1; done
grep -q 'has waited for server 1' "$dir/said"
kill -TERM -- "-$command"
wait "$command" && exit 1
for _ in $(seq 100); do pgrep -f "spate.toml $dir/one\$" > /dev/null || break; sleep 0.1; done
if pgrep -f "spate.toml $dir/one\$"; then echo 'an interrupted mount still waits'; exit 1; fi
kill -CONT "$meta"
fails 'is not a mountpoint' mountpoint "$dir/one"

# It does not wait for a server that was stopped on purpose.
"$spate" down -q
fails 'is not running' timeout 20 "$spate" mount "$dir/one"
