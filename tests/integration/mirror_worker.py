# SPDX-License-Identifier: Apache-2.0
"""One program at work on a mirrored file: it writes blocks that describe themselves, and reads them.

  mirror_worker.py PATH SEED                  below `spate run`
  mirror_worker.py PATH SEED FILE_SYSTEM      by libspate

It prints how many operations it has done, line by line, and ends when its standard input does: then it reads every block once
more, and prints the seconds that its longest call took. Any error of a call, and any byte that was not written so, ends it
with 1 and a sentence.
"""
import ctypes
import os
import random
import select
import struct
import sys
import time

BLOCKS, BLOCK = 48, 65536  # over several strips, and so over several groups
WORD = struct.Struct("<QQ")


class Library:
    """The calls of the worker through libspate."""

    def __init__(self, file_system, path):
        self.calls = ctypes.CDLL(os.path.join(os.environ["SPATE_BIN"], "../src/capi/libspate.so"))
        self.fs, self.file = ctypes.c_void_p(), ctypes.c_void_p()
        self.did("connect", ctypes.byref(self.fs), file_system.encode(), None)
        self.did("open", self.fs, path.encode(), os.O_RDWR | os.O_CREAT, 0o644, ctypes.byref(self.file))

    def did(self, name, *arguments):
        call = getattr(self.calls, "spate_" + name)
        call.restype = ctypes.c_ssize_t if name in ("pread", "pwrite") else ctypes.c_int
        result = call(*arguments)
        if result < 0:
            raise OSError(-result, "spate_%s: %s" % (name, os.strerror(-result)))
        return result

    def write(self, offset, data):
        return self.did("pwrite", self.file, data, ctypes.c_size_t(len(data)), ctypes.c_long(offset))

    def read(self, offset, size):
        data = ctypes.create_string_buffer(size)
        count = self.did("pread", self.file, data, ctypes.c_size_t(size), ctypes.c_long(offset))
        return data.raw[:count]

    def sync(self):
        self.did("fsync", self.file)


class Calls:
    """The same calls through the C library, under the preload library."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, offset, data):
        return os.pwrite(self.file, data, offset)

    def read(self, offset, size):
        return os.pread(self.file, size, offset)

    def sync(self):
        os.fsync(self.file)


class Work:
    def __init__(self, calls, seed):
        self.calls, self.random, self.versions, self.longest = calls, random.Random(seed), [0] * BLOCKS, 0

    def timed(self, call, *arguments):
        began = time.monotonic()
        result = call(*arguments)
        self.longest = max(self.longest, time.monotonic() - began)
        return result

    def content(self, block):
        version = self.versions[block]
        return WORD.pack(block, version) * (BLOCK // WORD.size) if version else b""

    def write(self, block):
        self.versions[block] += 1
        written = self.timed(self.calls.write, block * BLOCK, self.content(block))
        if written != BLOCK:
            sys.exit("a write of %d bytes wrote %d" % (BLOCK, written))

    def read(self, block):
        data = self.timed(self.calls.read, block * BLOCK, BLOCK)
        if self.versions[block] and data != self.content(block):
            at = next((i for i in range(min(len(data), BLOCK)) if data[i] != self.content(block)[i]), len(data))
            there = WORD.unpack_from(data, at - at % WORD.size) if at + WORD.size <= len(data) else ()
            sys.exit("block %d, version %d: %d bytes came, and byte %d is wrong: %s" % (block, self.versions[block], len(data), at, there))

    def step(self):
        block = self.random.randrange(BLOCKS)
        choice = self.random.random()
        if choice < 0.5:
            self.write(block)
        elif choice < 0.97:
            self.read(block)
        else:
            self.timed(self.calls.sync)


def main():
    path, seed = sys.argv[1], int(sys.argv[2])
    work = Work(Library(sys.argv[3], path) if len(sys.argv) > 3 else Calls(path), seed)
    done = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        work.step()
        done += 1
        if done % 10 == 0:
            print(done, flush=True)
    for block in range(BLOCKS):
        work.read(block)
    print("longest %.2f" % work.longest, flush=True)


main()
