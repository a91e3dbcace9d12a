#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# After close and open, programs of one mount read back from the page cache what they have written, as long as nobody else
# has written to the file. They always see what others have written.
. "$(dirname "$0")/attempts.sh"
. "$(dirname "$0")/lib.sh"
command -v fincore > /dev/null || { echo 'skipped: needs fincore'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at one noatime
mount_at other noatime
mount_at back cache=writeback,noatime
mount_at relative relatime
head -c 8388608 /dev/urandom > "$dir/data"

# resident FILE: prints how many bytes of it the kernel has after it was opened again.
resident() { fincore --bytes --noheadings --output RES "$1" | tr -d ' '; }

for mount in one back; do
  cp "$dir/data" "$dir/$mount/new"
  equal "$(resident "$dir/$mount/new")" 8388608
  cmp "$dir/data" "$dir/$mount/new"
  dd if="$dir/data" of="$dir/$mount/new" bs=1M status=none # over what is there
  equal "$(resident "$dir/$mount/new")" 8388608
  cp -p "$dir/data" "$dir/$mount/times"
  equal "$(resident "$dir/$mount/times")" 8388608
  # Another mount has written to the file, so nothing is kept.
  printf x | dd of="$dir/other/new" bs=1 seek=5000000 conv=notrunc status=none
  equal "$(resident "$dir/$mount/new")" 0
  equal "$(dd if="$dir/$mount/new" bs=1 skip=5000000 count=1 status=none)" x
  rm "$dir/$mount/new" "$dir/$mount/times"
done
# If the next read would move atime, an open drops the first and the last page. The open itself does not move atime.
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
[[ "$(atime)" > "$before" ]] || { echo 'a read of what was just written has not changed atime'; exit 1; }
mount_at again
mount_at second
timeout 120 python3 "$(dirname "$0")/read_back.py" "$dir/again" "$dir/second"
timeout 120 python3 "$(dirname "$0")/read_back.py" "$dir/one" "$dir/other"
