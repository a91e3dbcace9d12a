# SPDX-License-Identifier: Apache-2.0
"""Data and holes: SEEK_DATA and SEEK_HOLE after writes, punches, cuts; copies of ranges. Offsets of holes are told in blocks
of 4 KiB, as ext4 has them: a datafile that ends earlier may end its data within one."""
import os
import random

BLOCK = 4096
SEEK_DATA, SEEK_HOLE = os.SEEK_DATA, os.SEEK_HOLE
KEEP, PUNCH, COLLAPSE, ZERO, INSERT = 1, 2, 8, 16, 32


def blocks(offset):
    return "block %d" % -(-offset // BLOCK)


def pattern(seed, size):
    return random.Random(seed).randbytes(size)


def scan(do, fd, from_offset=0):
    """Prints every piece of data of the file."""
    at = from_offset
    while True:
        data = do("lseek", fd, at, SEEK_DATA, show=blocks)
        if data is None:
            return
        at = do("lseek", fd, data // BLOCK * BLOCK, SEEK_HOLE, show=blocks)
        at = -(-at // BLOCK) * BLOCK



def edges(r):
    do = lambda call, fd, *a, **k: named(r, call, fd, *a, **k)
    fd = r.open("/edges", os.O_RDWR | os.O_CREAT, 0o644)
    for whence in (SEEK_DATA, SEEK_HOLE):
        for offset in (-1, 0, 1):
            do("lseek", fd, offset, whence)
    do("ftruncate", fd, 10 << 20)
    scan(do, fd)
    do("lseek", fd, 0, SEEK_HOLE)
    do("lseek", fd, (10 << 20) - 1, SEEK_HOLE)
    do("lseek", fd, 10 << 20, SEEK_HOLE)
    do("lseek", fd, 0, SEEK_DATA)
    do("pwrite", fd, pattern(1, BLOCK), 5 << 20)
    scan(do, fd)
    for offset in (0, 5 << 20, (5 << 20) + 100, (5 << 20) + BLOCK, 9 << 20):
        do("lseek", fd, offset, SEEK_DATA, show=blocks)
        do("lseek", fd, offset, SEEK_HOLE, show=blocks)
    do("lseek", fd, 0, os.SEEK_CUR, show=blocks)  # the calls above move the position
    r.frontend.close(fd)
    read_only = r.open("/edges", os.O_RDONLY)
    named(r, "lseek", read_only, 0, SEEK_DATA, show=blocks)
    r.frontend.close(read_only)
    write_only = r.open("/edges", os.O_WRONLY)
    named(r, "lseek", write_only, 0, SEEK_DATA, show=blocks)
    r.frontend.close(write_only)


def named(r, call, *arguments, show=None):
    """Like Recorder.do, without the numbers of descriptors."""
    numbers = (0, 2) if call == "copy_file_range" else (0,)
    hidden = [Hidden(a) if i in numbers else a for i, a in enumerate(arguments)]
    return r.do(call, *hidden, show=show)


class Hidden(int):
    def __repr__(self):
        return "fd"


def random_holes(r, seed, steps):
    do = lambda call, fd, *a, **k: named(r, call, fd, *a, **k)
    dice = random.Random(seed)
    fd = r.open("/holes%d" % seed, os.O_RDWR | os.O_CREAT, 0o644)
    for step in range(steps):
        offset, size = dice.randrange(0, 300) * BLOCK, dice.randrange(1, 40) * BLOCK
        action = dice.random()
        if action < 0.5:
            do("pwrite", fd, pattern(step, size), offset)
        elif action < 0.6:
            do("pwrite", fd, pattern(step, 100), offset + 1000)
        elif action < 0.85:
            do("fallocate", fd, KEEP | PUNCH, offset, size)
        else:
            do("ftruncate", fd, dice.randrange(0, 400) * BLOCK + dice.choice((0, 0, 1, 2000)))
        if step % 3 == 2:
            scan(do, fd)
    do("fstat", fd, show=lambda st: st.st_size)
    do("pread", fd, 2 << 20, 0)
    r.frontend.close(fd)


def reserved(r):
    """Reserved space is not data, also behind the end of the file; on all servers."""
    do = lambda call, *a, **k: named(r, call, *a, **k)
    for mode in (0, KEEP):
        fd = r.open("/reserved_%d" % mode, os.O_RDWR | os.O_CREAT, 0o644)
        do("fallocate", fd, mode, 0, 1 << 20)
        do("fstat", fd, show=lambda st: st.st_size)
        do("lseek", fd, 0, SEEK_DATA)
        do("pwrite", fd, pattern(1, 5000), 2 << 20)
        for at in (0, 1 << 19, (1 << 20) - 1, 1 << 20, 2 << 20):
            do("lseek", fd, at, SEEK_DATA, show=blocks)
            do("lseek", fd, at, SEEK_HOLE, show=blocks)
        do("fallocate", fd, mode, 1 << 20, 4 << 20)
        do("fstat", fd, show=lambda st: st.st_size)
        scan(do, fd)
        do("fallocate", fd, ZERO, 5 << 20, 1 << 20)
        do("fstat", fd, show=lambda st: st.st_size)
        scan(do, fd)
        do("pread", fd, 6 << 20, 0)  # last, since reserved space that was read counts as data while it is in ext4's page cache
        r.frontend.close(fd)


def copies(r):
    do = lambda call, *a, **k: named(r, call, *a, **k)
    source = r.open("/source", os.O_RDWR | os.O_CREAT, 0o644)
    do("pwrite", source, pattern(1, 700000), 0)
    do("pwrite", source, pattern(2, 100000), 5 << 20)
    do("ftruncate", source, 7 << 20)
    size = lambda st: st.st_size
    for name, start, to, count in (("a", 0, 0, 7 << 20), ("b", 0, 0, 100 << 20), ("c", 100, 5000, 650000), ("d", 6 << 20, 0, 1 << 20),
                                   ("e", 65536, 131072, 500000), ("f", 7 << 20, 0, 100), ("g", 8 << 20, 0, 100), ("h", 0, 1 << 20, 0)):
        fd = r.open("/copy_" + name, os.O_RDWR | os.O_CREAT, 0o644)
        left = count
        while left > 0:  # a mount may copy less at once than requested
            done = r.frontend.copy_file_range(source, start + count - left, fd, to + count - left, left)
            left = left - done if done > 0 else 0
        do("fstat", fd, show=size)
        do("pread", fd, 8 << 20, 0)
        if start % BLOCK == to % BLOCK == 0:
            scan_content(r, fd)
        r.frontend.close(fd)
    over = r.open("/copy_a", os.O_RDWR)
    do("pwrite", over, b"x" * (7 << 20), 0)
    r.frontend.copy_file_range(source, 0, over, 0, 7 << 20)
    do("pread", over, 8 << 20, 0)  # holes of the source become zeros in the copy
    do("copy_file_range", over, 0, over, 1000, 500)
    do("copy_file_range", over, 0, over, 1000, 5000)
    do("copy_file_range", over, 5000, over, 1000, 4001)
    do("pread", over, 20000, 0)
    do("lseek", source, 10, os.SEEK_SET)
    do("lseek", over, 20, os.SEEK_SET)
    do("copy_file_range", source, None, over, None, 30)
    do("lseek", source, 0, os.SEEK_CUR)
    do("lseek", over, 0, os.SEEK_CUR)
    do("pread", over, 100, 0)
    copy_errors(r, source)
    r.frontend.close(over)
    r.frontend.close(source)


def scan_content(r, fd):
    """No front end may report a range as a hole that has a byte other than zero."""
    at, end, wrong = 0, r.frontend.fstat(fd).st_size, 0
    while at < end:
        try:
            data = r.frontend.lseek(fd, at, SEEK_DATA)
        except OSError:
            data = end
        if any(r.frontend.pread(fd, data - at, at)):
            wrong += 1
        if data >= end:
            break
        at = r.frontend.lseek(fd, data, SEEK_HOLE)
    r.say("data called a hole: %d times" % wrong)


def copy_errors(r, source):
    do = lambda call, *a, **k: named(r, call, *a, **k)
    r.frontend.mkdir("/directory", 0o755)
    opened = {"read": r.open("/source", os.O_RDONLY), "write": r.open("/target", os.O_WRONLY | os.O_CREAT, 0o644),
              "append": r.open("/target", os.O_WRONLY | os.O_APPEND), "directory": r.open("/directory", os.O_RDONLY)}
    for first, one in opened.items():
        for second, two in opened.items():
            r.say("from %s to %s" % (first, second))
            do("copy_file_range", one, 0, two, 0, 100)
    do("copy_file_range", source, 0, opened["write"], (1 << 63) - 1, 100)
    for fd in opened.values():
        r.frontend.close(fd)


def run(r):
    edges(r)
    for seed in range(4):
        random_holes(r, seed, 40)
    reserved(r)
    copies(r)
