# SPDX-License-Identifier: Apache-2.0
"""parallel_writes.py FILE FLAG: makes a file, and when its input ends four threads write to it, again while the file is mapped."""
import mmap
import os
import sys
import threading

PART, THREADS = 4096, 4
path, flag = sys.argv[1:]
with open(path + ".new", "wb") as f:
    f.write(bytes(PART * THREADS))
fd = os.open(path + ".new", os.O_RDWR | getattr(os, flag, 0))
os.rename(path + ".new", path)


def write(number, value):
    memory = mmap.mmap(-1, PART)  # aligned, as O_DIRECT requires
    memory.write(bytes([value]) * PART)
    assert (got := os.pwrite(fd, memory, number * PART)) == PART, got


def write_all(first):
    threads = [threading.Thread(target=write, args=(i, first + i)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(path, "rb") as f:
        assert (got := f.read()) == b"".join(bytes([first + i]) * PART for i in range(THREADS)), len(got)


sys.stdin.read()
write_all(1)
mapped = mmap.mmap(fd, PART * THREADS)
mapped[0]
write_all(11)
