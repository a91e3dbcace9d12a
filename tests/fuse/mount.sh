#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ordinary programs work in a mounted directory.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"

fails 'no directory' "$spate" mount "$dir/nowhere"
fails 'chace' "$spate" mount -p "$dir/m" -o chace=none
mount_at m
cd "$dir/m"
ahead=/sys/class/bdi/$(mountpoint -d "$dir/m")/read_ahead_kb
[ ! -w "$ahead" ] || equal "$(cat "$ahead")" 4096

# Data and names.
head -c 3000001 /dev/urandom > "$dir/data"
cp "$dir/data" big
cmp big "$dir/data"
dd if="$dir/data" of=big bs=1000 seek=7 count=3 conv=notrunc status=none
cmp -n 7000 big "$dir/data"
equal "$(stat -c %s big)" 3000001
echo one > text && echo two >> text
equal "$(cat text)" $'one\ntwo'
mkdir -p a/b/c && mv text a/b/text && ln a/b/text hard && ln -s a/b/text soft
equal "$(stat -c %h hard)" 2
equal "$(readlink soft)" a/b/text
equal "$(cat soft)" $'one\ntwo'
chmod 640 hard && equal "$(stat -c %a soft -L)" 640
touch -d '2020-02-02 02:02:02.5' hard && equal "$(stat -c %Y hard)" "$(date -d '2020-02-02 02:02:02' +%s)"
truncate -s 5 hard && equal "$(cat hard)" 'one
t'
truncate -s 10000000 big && equal "$(stat -c %s big)" 10000000
cmp <(tail -c 1000 big) <(head -c 1000 /dev/zero)
mkfifo pipe && test -p pipe
fails 'File exists' mkdir a
fails 'not empty' rmdir a
fails 'No such file' cat missing
fails 'Is a directory' sh -c 'echo x > a'
fails 'Not a directory' ls hard/x
fails 'File name too long' touch "$(printf 'x%.0s' $(seq 256))"
setfattr -n user.colour -v blue hard 2> /dev/null && equal "$(getfattr --only-values -n user.colour hard)" blue
fallocate -l 30000 grown && equal "$(stat -c %s grown)" 30000 && cmp grown <(head -c 30000 /dev/zero)
fallocate -n -l 50000 grown && fallocate -l 20000 grown && equal "$(stat -c %s grown)" 30000 && rm grown
fallocate -p -o 0 -l 4096 big && cmp <(head -c 4096 big) <(head -c 4096 /dev/zero)
equal "$(df --output=fstype . | tail -1)" fuse.spate

# Listing a large directory takes many requests, and shows each name once.
mkdir many && (cd many && seq 1 600 | xargs touch)
equal "$(ls many | sort -n | uniq | wc -l)" 600
equal "$(ls -a many | wc -l)" 602
rm -r many

# A file is still open when its last name is gone.
exec 5<> unlinked && rm unlinked && echo still >&5
equal "$(cat /proc/self/fd/5)" still
exec 5>&-

# Several programs write to one file.
for i in 0 1 2 3; do dd if="$dir/data" of=shared bs=64k skip="$i" seek="$i" count=1 conv=notrunc status=none & done
wait
cmp -n 262144 shared "$dir/data"

# The mount outlives its servers. A process that waits for one can be killed.
cd "$dir"
for pid in "$dir"/fs/run/*.pid; do kill -9 "$(cut -d' ' -f1 "$pid")"; done
cat m/hard > late &
reader=$!
cat m/hard > /dev/null &
killed=$!
both_wait() { [ "$(status m workers_with_request)" -ge 2 ]; }
wait_until both_wait
kill -9 "$killed"
wait "$killed" 2> /dev/null && exit 1
"$spate" up -q --dir "$dir/fs"
wait "$reader"
equal "$(cat "$dir/late")" $'one\nt'
cd m
echo more >> hard && equal "$(tail -c 5 hard)" more

fails 'in use' "$spate" umount "$dir/m"
cd "$dir"
pid=$(pgrep -f "spate-mount $dir/fs/spate.toml $dir/m")
"$spate" umount "$dir/m"
fails 'nothing is mounted' "$spate" umount "$dir/m"
has_ended() { ! kill -0 "$1" 2> /dev/null; }
wait_until has_ended "$pid"
"$spate" cat spate:/hard | cmp - <(printf 'one\ntmore\n')

# A signal unmounts.
mount_at m2 ro
fails 'Read-only' touch "$dir/m2/x"
kill -TERM "$(pgrep -f "spate-mount $dir/fs/spate.toml $dir/m2")"
is_unmounted() { ! mountpoint -q "$1"; }
wait_until is_unmounted "$dir/m2"
