#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# After close and open, a mount reads back from the page cache what it has written, however it was written. No read reaches an io
# server.
. "$(dirname "$0")/attempts.sh"
. "$(dirname "$0")/lib.sh"
command -v fincore > /dev/null || { echo 'skipped: needs fincore'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 3 --port "$port"
mount_at one noatime
mount_at other noatime
size=8388608
head -c $size /dev/urandom > "$dir/data"
file=$dir/one/file

# reads: prints how many read requests the io servers have answered.
reads() {
  "$spate" stats --prometheus | awk 'index($1, "spate_rpc_request_ns_count") == 1 && index($1, "op=\"read\"") { sum += $2 } END { print sum + 0 }'
}

# all_reads: prints the same number once all requests that were sent are counted.
all_reads() {
  local last=none now
  now=$(reads)
  until [ "$now" = "$last" ]; do last=$now now=$(sleep 0.05 && reads); done
  echo "$now"
}

# resident: prints how many bytes of the file the kernel has after an open.
resident() { fincore --bytes --noheadings --output RES "$file" | tr -d ' '; }

# kept: checks that the kernel has the whole file after an open, and that its pages are right.
kept() {
  local before
  equal "$(resident)" "$(stat -c %s "$dir/data")"
  before=$(all_reads)
  cmp "$dir/data" "$file"
  equal "$(all_reads)" "$before"
}

cp "$dir/data" "$file"
kept
# Another mount looks into directories that this one has just made.
mkdir "$dir/one/new" && echo text > "$dir/one/new/text" && cat "$dir/one/new/text" > /dev/null
ls -l "$dir/other/new" > /dev/null
mv "$dir/one/new/text" "$dir/one/new/name" && cat "$dir/one/new/name" > /dev/null
kept
# A program writes a part of the file, and not every datafile is touched.
printf changed | tee >(dd of="$dir/data" bs=1 seek=5000001 conv=notrunc status=none) | dd of="$file" bs=1 seek=5000001 conv=notrunc status=none
kept
# A program opens the file for writing and writes nothing.
: >> "$file"
kept
# A program of another mount does the same.
exec 3<> "$dir/other/file"
kept
exec 3>&-
kept
# Another process serves the mount, after an upgrade and after a crash.
"$spate" mount --upgrade "$dir/one"
kept
kill -9 "$("$spate" mount --status "$dir/one" | awk '$1 == "server" { print $2 }')"
kept
# Another mount has written to the file.
printf y | tee >(dd of="$dir/data" bs=1 seek=7000001 conv=notrunc status=none) | dd of="$dir/other/file" bs=1 seek=7000001 conv=notrunc status=none
equal "$(resident)" 0
cmp "$dir/data" "$file"
kept
# Two programs write to it at the same time.
python3 - "$file" "$dir/data" << 'END'
import os, sys
for name in sys.argv[1:]:
    one = os.open(name, os.O_RDWR)
    two = os.open(name, os.O_RDWR)
    os.pwrite(two, b"2" * 300000, 200000)
    os.pwrite(one, b"1" * 300000, 100000)
    os.close(one)
    os.pwrite(two, b"2" * 1000, 90000)
    os.close(two)
END
cmp "$dir/data" "$file"
kept
# The open truncates the file, and one datafile is written.
head -c 8192 /dev/urandom > "$dir/data"
cat "$dir/data" > "$file"
kept
# The file is truncated while it is open. The kernel itself then drops what was read or written before.
python3 - "$file" "$dir/data" << 'END'
import os, sys
for name in sys.argv[1:]:
    file = os.open(name, os.O_RDWR)
    os.ftruncate(file, 4096)
    os.pwrite(file, b"x" * 4096, 4096)
    os.close(file)
END
equal "$(resident)" 4096
cmp "$dir/data" "$file"
kept
# A program appends. What was there before stays in the cache, and what was appended is read once.
python3 - "$file" "$dir/data" << 'END'
import os, sys
for name in sys.argv[1:]:
    file = os.open(name, os.O_WRONLY | os.O_APPEND)
    for byte in b"abcd":
        os.write(file, bytes([byte]) * 299008)
    os.close(file)
END
equal "$(resident)" 8192
cmp "$dir/data" "$file"
kept
# With relatime the first read after a change moves atime. Only the beginning and the end of the file are read anew.
head -c $size /dev/urandom > "$dir/data"
mount_at relative relatime
file=$dir/relative/file2
cp "$dir/data" "$file"
equal "$(resident)" $((size - 8192))
before=$(all_reads) atime=$(stat -c %.9X "$file")
cmp "$dir/data" "$file"
anew=$(($(all_reads) - before))
[ $anew -gt 0 ] || { echo 'no read has reached a server'; exit 1; }
[ $anew -le 6 ] || { echo "two pages took $anew reads"; exit 1; }
[ "$(stat -c %.9X "$file")" != "$atime" ] || { echo 'the read has not changed atime'; exit 1; }
kept
