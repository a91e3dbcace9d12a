#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each mount sees what the other one writes.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at none cache=none
mount_at auto cache=auto
mount_at back cache=writeback

# It sees names and attributes at once, in every mode.
for from in none auto back; do
  for to in none auto back; do
    mkdir "$dir/$from/d" && test -d "$dir/$to/d"
    echo "$from" > "$dir/$from/d/f"
    equal "$(stat -c %s "$dir/$to/d/f")" "$((${#from} + 1))"
    equal "$(cat "$dir/$to/d/f")" "$from"
    chmod 600 "$dir/$to/d/f" && equal "$(stat -c %a "$dir/$from/d/f")" 600
    rm -r "$dir/$to/d" && test ! -e "$dir/$from/d"
  done
done

# An open sees the data of every write that was closed before it, although both mounts have read the file already.
for i in $(seq 20); do
  echo "round $i" > "$dir/auto/data"
  equal "$(cat "$dir/none/data")" "round $i"
  echo "again $i" > "$dir/none/data"
  equal "$(cat "$dir/auto/data")" "again $i"
done

# Without a cache, a read through an open file sees a write that is not closed yet.
echo 'before' > "$dir/auto/live"
exec 5< "$dir/none/live" 6<> "$dir/auto/live"
echo 'after!' >&6
equal "$(cat <&5)" 'after!'
exec 5<&- 6>&-
