#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# If a mount has made a file and is the only one that writes it, it answers for size and times without asking the io servers. It sees at once what
# another mount writes and truncates meanwhile.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at a nogather,nodelegate  # with gathered writes a stat on another mount may be late
mount_at b
export dir
python3 - "$dir/a" "$dir/b" <<'PROGRAM'
import os
import sys

a, b = sys.argv[1:]


def same(name):
    here, there = os.stat(f"{a}/{name}"), os.stat(f"{b}/{name}")
    for what in ("st_size", "st_mtime_ns", "st_ctime_ns", "st_blocks", "st_mode"):
        assert getattr(here, what) == getattr(there, what), (name, what, here, there)
    return here


os.stat(a)
for i in range(20):
    name = f"f{i}"
    fd = os.open(f"{a}/{name}", os.O_CREAT | os.O_EXCL | os.O_RDWR)
    assert os.fstat(fd).st_size == 0
    os.write(fd, b"x" * 3000)
    assert os.fstat(fd).st_size == 3000
    assert same(name).st_size == 3000
    os.pwrite(fd, b"y" * 100000, i * 50000)
    same(name)
    os.utime(fd, ns=(10**9, 2 * 10**9))
    assert same(name).st_mtime_ns == 2 * 10**9
    os.fchmod(fd, 0o600 + i)
    os.posix_fallocate(fd, 0, 2000000)
    assert same(name).st_size == 2000000
    if i % 2:
        os.ftruncate(fd, 5)
        assert same(name).st_size == 5
    size = os.fstat(fd).st_size
    with open(f"{b}/{name}", "ab") as other:
        other.write(b"z" * 10)
        other.flush()
        assert os.fstat(fd).st_size == size + 10
        os.truncate(f"{b}/{name}", 7)
        assert os.fstat(fd).st_size == 7
    assert os.fstat(fd).st_size == 7
    os.close(fd)
    assert same(name).st_size == 7
PROGRAM

# cp -p and tar make these calls for each file. None of their questions reaches a server.
mkdir "$dir/source" "$dir/a/target"
for i in $(seq 20); do head -c 3000 /dev/zero > "$dir/source/f$i"; done
questions() { echo "$(asked datafile_stat 2) $(asked datafile_stat 3) $(asked getattr)"; }
before=$(questions)
cp -p "$dir"/source/* "$dir/a/target"
equal "$(questions)" "$before"
diff -r "$dir/source" "$dir/b/target"

# A mount that appends to a file that it has made does not ask where the file ends. Readers on both mounts see each append at once, whether they
# open the file anew or keep it open.
python3 - "$dir/a" "$dir/b" <<'PROGRAM'
import os
import random
import sys

a, b = sys.argv[1:]
chance = random.Random(5)
log = os.open(f"{a}/log", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND)
data, reader = b"", None


def read_all(fd):
    size = os.fstat(fd).st_size
    return os.pread(fd, size + 1000, 0)


for i in range(400):
    more = bytes([i % 256]) * chance.choice([1, 10, 1000, 4096, 9000])
    assert os.write(log, more) == len(more)
    data += more
    what = chance.randrange(8)
    if what == 0:
        with open(f"{a}/log", "rb") as file:
            assert file.read() == data, i
    elif what == 1:
        with open(f"{b}/log", "rb") as file:
            assert file.read() == data, i
    elif what == 2 and reader is None:
        reader = os.open(f"{a}/log", os.O_RDONLY)
    elif what == 3 and reader is not None:
        os.close(reader)
        reader = None
    if reader is not None:
        assert read_all(reader) == data, i
os.close(log)
with open(f"{a}/log", "rb") as file:
    assert file.read() == data
PROGRAM
before=$(questions)
python3 - "$dir/a/only" <<'PROGRAM'
import os
import sys

log = os.open(sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND)
for _ in range(100):
    os.write(log, b"x" * 100)
os.close(log)
PROGRAM
equal "$(questions)" "$before"
equal "$(stat -c %s "$dir/b/only")" 10000
