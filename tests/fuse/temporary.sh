#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files without a name (O_TMPFILE) on a mount keep their data, may get a name later, and leave nothing behind.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
mount_at m
mkdir -m 2775 "$dir/m/d"
chgrp 7 "$dir/m/d" 2> /dev/null || true
python3 - "$dir/m/d" <<'PYTHON'
import errno, os, sys

folder = sys.argv[1]
data = os.urandom(3_000_001)


def temporary(flags=0, mode=0o640):
    return os.open(folder, os.O_TMPFILE | os.O_RDWR | flags, mode)


def name_it(fd, name):
    # link() gets a folder to start from, because Python's plain link() does not follow the link in /proc.
    os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, follow_symlinks=True)


os.umask(0o027)
fd = temporary(mode=0o666)
seen = os.fstat(fd)
assert (seen.st_nlink, seen.st_size, seen.st_mode & 0o7777) == (0, 0, 0o640), seen
assert seen.st_gid == os.stat(folder).st_gid, "the group of a setgid directory"
assert os.write(fd, data) == len(data) and os.pread(fd, 100, 2_000_000) == data[2_000_000:2_000_100]
assert os.listdir(folder) == []
name_it(fd, folder + "/named")
assert os.fstat(fd).st_nlink == 1 and os.listdir(folder) == ["named"]
os.close(fd)
assert open(folder + "/named", "rb").read() == data

fd = temporary(os.O_EXCL)
try:
    name_it(fd, folder + "/never")
    sys.exit("made with O_EXCL it has got a name")
except OSError as error:
    assert error.errno == errno.ENOENT, error
os.close(fd)
try:
    os.open(folder, os.O_TMPFILE | os.O_RDONLY)
    sys.exit("it was opened for reading only")
except OSError as error:
    assert error.errno == errno.EINVAL, error
try:
    os.open(folder + "/named", os.O_TMPFILE | os.O_RDWR)
    sys.exit("it was made in a file")
except OSError as error:
    assert error.errno == errno.ENOTDIR, error
fd = temporary()
os.write(fd, data)
os.close(fd)
PYTHON
rm "$dir/m/d/named"
# The files that got no name have left nothing.
datafiles() { find "$dir"/fs/server-*/target-0/d -type f | wc -l; }
for _ in $(seq 100); do
  [ "$(datafiles)" -gt 0 ] || break
  sleep 0.1
done
equal "$(datafiles)" 0
