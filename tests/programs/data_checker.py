# SPDX-License-Identifier: Apache-2.0
"""data_checker.py TREE LOCAL SEED STEPS PROCESSES [no-shared-maps]: random calls on the data of files, held against local copies.

Two rounds. `regions`: one file, each process alone in a region of its own, whose borders lie within pages; no locks. `shared`: one
file, every call on any part of it, sizes too, under a record lock of the whole file. Calls: pread, pwrite, appends, truncate, punch,
zero, allocate, copy_file_range, reads and writes of maps, fsync, opening anew. At the end everything is read by a new process.
"""
import ctypes
import fcntl
import mmap
import os
import random
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
KEEP, PUNCH, ZERO = 1, 2, 16
REGION = 150_001
LARGEST = 1_500_000
PAGE = mmap.PAGESIZE


def fallocate(fd, mode, start, size):
    if LIBC.fallocate(fd, mode, start, size) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


class Checker:
    """`copy`: a local file with the same content in [low, high)."""

    def __init__(self, path, copy_path, seed, maps):
        self.path, self.dice, self.maps = path, random.Random(seed), maps
        self.fd, self.copy = os.open(path, os.O_RDWR), os.open(copy_path, os.O_RDWR)
        self.did = []

    def expect(self, what, got, start, size):
        wanted = os.pread(self.copy, size, start)
        if got == wanted:
            return
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        sys.exit("%s of %d bytes at %d: %d bytes came, %d are right; wrong from byte %d on: %r instead of %r; before: %s" % (
            what, size, start, len(got), len(wanted), start + at, got[at:at + 8], wanted[at:at + 8], "; ".join(self.did[-12:])))

    def piece(self, low, high):
        start = self.dice.randrange(low, high)
        if self.dice.random() < 0.3:
            start = max(low, start - start % PAGE)
        return start, min(high - start, self.dice.choice((1, 100, PAGE, self.dice.randrange(1, 70_000))))

    def data(self, size):
        return bytes([self.dice.randrange(1, 256)]) * (size // 2) + self.dice.randbytes(size - size // 2)

    def write_both(self, data, start):
        at = 0
        while at < len(data):
            at += os.pwrite(self.fd, data[at:], start + at)
        os.pwrite(self.copy, data, start)

    def by_map(self, write, start, size):
        size = min(size, os.fstat(self.fd).st_size - start)
        if size <= 0:
            return
        base = start - start % PAGE
        with mmap.mmap(self.fd, start + size - base, mmap.MAP_SHARED, mmap.PROT_READ | (mmap.PROT_WRITE if write else 0), offset=base) as m:
            if write:
                data = self.data(size)
                m[start - base:] = data
                os.pwrite(self.copy, data, start)
                if self.dice.random() < 0.3:
                    m.flush()
            self.expect("a map", m[start - base:], start, size)

    def step(self, low, high, sizes):
        calls = ["read"] * 4 + ["write"] * 4 + ["map"] * 2 + ["punch", "zero", "copy", "sync", "again", "allocate"]
        calls += ["write_map"] * 3 if self.maps else []
        calls += ["truncate", "truncate", "append", "size"] if sizes else []
        call = self.dice.choice(calls)
        start, size = self.piece(low, high)
        self.did.append("%s %d %d" % (call, start, size))
        getattr(self, "do_" + call)(start, size, (low, high))

    def do_read(self, start, size, _):
        self.expect("pread", os.pread(self.fd, size, start), start, size)

    def do_write(self, start, size, _):
        self.write_both(self.data(size), start)

    def do_map(self, start, size, _):
        self.by_map(False, start, size)

    def do_write_map(self, start, size, _):
        self.by_map(True, start, size)

    def do_punch(self, start, size, _):
        for fd in (self.fd, self.copy):
            fallocate(fd, PUNCH | KEEP, start, size)

    def do_zero(self, start, size, _):
        for fd in (self.fd, self.copy):
            fallocate(fd, ZERO, start, size)

    def do_allocate(self, start, size, _):
        for fd in (self.fd, self.copy):
            os.posix_fallocate(fd, start, size)

    def do_copy(self, start, size, limits):
        target = self.dice.randrange(limits[0], limits[1] - size + 1)
        if abs(target - start) < size:
            return
        done, data = 0, os.pread(self.copy, size, start)
        while done < len(data):
            done += os.copy_file_range(self.fd, self.fd, len(data) - done, start + done, target + done)
        os.pwrite(self.copy, data, target)

    def do_sync(self, *_):
        os.fsync(self.fd)

    def do_again(self, *_):
        os.close(self.fd)
        self.fd = os.open(self.path, os.O_RDWR)

    def do_truncate(self, start, *_):
        for fd in (self.fd, self.copy):
            os.ftruncate(fd, start)

    def do_append(self, _, size, __):
        if os.fstat(self.copy).st_size + size > LARGEST:
            return
        fd, data = os.open(self.path, os.O_WRONLY | os.O_APPEND), self.data(size)
        os.pwrite(self.copy, data, os.fstat(self.copy).st_size)
        at = 0
        while at < size:
            at += os.write(fd, data[at:])
        os.close(fd)

    def do_size(self, *_):
        sizes = os.fstat(self.fd).st_size, os.fstat(self.copy).st_size
        if sizes[0] != sizes[1]:
            sys.exit("the size is %d, should be %d; before: %s" % (*sizes, "; ".join(self.did[-12:])))

    def whole(self):
        size = os.fstat(self.copy).st_size
        self.do_size()
        self.expect("the whole file", os.pread(self.fd, size, 0), 0, size)


def worker(kind, path, copy, seed, steps, number, maps):
    checker = Checker(path, copy, seed * 100 + number, maps)
    # The lock is on another file than the data: closing a file drops the process's record locks on it.
    lock = os.open(path + ".lock", os.O_RDWR)
    for _ in range(steps):
        if kind == "regions":
            checker.step(number * REGION, (number + 1) * REGION, False)
        else:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            checker.step(0, LARGEST, True)
            fcntl.lockf(lock, fcntl.LOCK_UN)


def main():
    if sys.argv[1] == "worker":
        kind, path, copy, seed, steps, number, maps = sys.argv[2:]
        return worker(kind, path, copy, int(seed), int(steps), int(number), maps == "True")
    if sys.argv[1] == "whole":
        return Checker(sys.argv[2], sys.argv[3], 0, False).whole()
    tree, local, seed, steps, processes = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    maps = sys.argv[6:] != ["no-shared-maps"]
    print("seed %d, %d steps by each of %d processes, %s" % (seed, steps, processes, "maps that are written" if maps else "maps that are read"))
    for kind in ("regions", "shared"):
        path, copy = os.path.join(tree, kind), os.path.join(local, kind)
        open(path + ".lock", "w").close()
        for name in (path, copy):
            with open(name, "w") as f:
                f.truncate(processes * REGION)
        own = [sys.executable, __file__]
        running = [subprocess.Popen(own + ["worker", kind, path, copy, str(seed), str(steps), str(i), str(maps)]) for i in range(processes)]
        if sum([p.wait() for p in running]) or subprocess.run(own + ["whole", path, copy]).returncode:
            sys.exit("%s: seed %d failed" % (kind, seed))


main()
