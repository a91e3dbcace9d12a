#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What programs of one mount have written is read back from the page cache after close and open, as long as nobody else
# wrote it; and what others wrote is always seen.
. "$(dirname "$0")/attempts.sh"
. "$(dirname "$0")/lib.sh"
command -v fincore > /dev/null || { echo 'skipped: needs fincore'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at one noatime
mount_at other noatime
mount_at back cache=writeback,noatime
mount_at relative relatime
head -c 8388608 /dev/urandom > "$dir/data"

# resident FILE: how much of it the kernel has after it was opened again, bytes.
resident() { fincore --bytes --noheadings --output RES "$1" | tr -d ' '; }

for mount in one back; do
  cp "$dir/data" "$dir/$mount/new"
  equal "$(resident "$dir/$mount/new")" 8388608
  cmp "$dir/data" "$dir/$mount/new"
  dd if="$dir/data" of="$dir/$mount/new" bs=1M status=none # over what is there
  equal "$(resident "$dir/$mount/new")" 8388608
  cp -p "$dir/data" "$dir/$mount/times"
  equal "$(resident "$dir/$mount/times")" 8388608
  # Somebody else has written: nothing is kept.
  printf x | dd of="$dir/other/new" bs=1 seek=5000000 conv=notrunc status=none
  equal "$(resident "$dir/$mount/new")" 0
  equal "$(dd if="$dir/$mount/new" bs=1 skip=5000000 count=1 status=none)" x
  rm "$dir/$mount/new" "$dir/$mount/times"
done
# Where the next read moves atime, an open drops the first and the last page, and moves nothing itself.
cp "$dir/data" "$dir/relative/read"
atime() { stat -c %.9X "$dir/other/read"; }
before=$(atime)
equal "$(resident "$dir/relative/read")" 8380416
equal "$(atime)" "$before"
for _ in $(seq 100); do
  cat "$dir/relative/read" > /dev/null
  [ "$(atime)" = "$before" ] || break
  sleep 0.05
done
[[ "$(atime)" > "$before" ]] || { echo 'a read of what was just written does not move atime'; exit 1; }
mount_at again
mount_at second
timeout 120 python3 "$(dirname "$0")/read_back.py" "$dir/again" "$dir/second"
timeout 120 python3 "$(dirname "$0")/read_back.py" "$dir/one" "$dir/other"
