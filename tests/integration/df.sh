#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `spate df` counts each device once, however many servers and targets of the host share it.
source "$(dirname "$0")/common.sh"

take_ports 4
"$spate" up -q --dir "$dir/fs" --io 3 --port "$port"
"$spate" down -q --dir "$dir/fs"
# The first io server gets a second target on the same device.
sed -i "s|storage = \[\"$dir/fs/server-2/target-0\"\]|storage = [\"$dir/fs/server-2/target-0\", \"$dir/fs/server-2/target-1\"]|" "$dir/fs/spate.toml"
"$spated" --config "$dir/fs/spate.toml" --server 2 --format > "$dir/out" 2>&1 || fail 'spated --format has not made the new target'
"$spate" up -q --dir "$dir/fs"
"$spate" df --json > "$dir/df"
test "$(grep -c '"target"' "$dir/df")" = 4 || fail 'df does not list four targets'

size_of() { grep "\"$1\"" "$dir/df" | grep -o '[0-9]*' | sort -u; }
read -r blocks block_size < <(stat -f -c '%b %S' "$dir/fs")
device=$((blocks * block_size))
test "$(size_of total)" = "$device" || fail "the total is $(size_of total | tr '\n' ' '), and the device has $device"
"$spate" df | awk '/^file system/ {print $4, $5}' > "$dir/total"
"$spate" df | awk '/server 2 target 512/ {print $5, $6}' | cmp - "$dir/total" || fail 'the table shows another total'
