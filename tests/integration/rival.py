# SPDX-License-Identifier: Apache-2.0
"""One of two programs that write the same blocks and make the same names, through libspate:

  rival.py FILE_SYSTEM NUMBER SEED [look]      look: reads every block once, and ends

It prints one line for each call that was answered: what it was, when it began and ended (s of a clock that all machines of
the test share), and what it did:

  write BEGAN ENDED BLOCK VERSION      read BEGAN ENDED BLOCK RIVAL VERSION      name BEGAN ENDED NAME
  exists BEGAN ENDED NAME              begun BEGAN BLOCK VERSION

"begun" stands before each write: one that is never answered may still be carried out. It ends when its standard input does.
Any other error of a call ends it with 1 and a sentence.
"""
import ctypes
import errno
import os
import random
import select
import struct
import sys
import time

BLOCKS, BLOCK = 16, 65536
WORD = struct.Struct("<QQ")  # rival, version


class Library:
    def __init__(self, file_system):
        self.calls = ctypes.CDLL(os.path.join(os.environ["SPATE_BIN"], "../src/capi/libspate.so"))
        self.calls.spate_last_error.restype = ctypes.c_char_p
        self.fs = ctypes.c_void_p()
        self.did("connect", ctypes.byref(self.fs), file_system.encode(), None)

    def did(self, name, *arguments):
        call = getattr(self.calls, "spate_" + name)
        call.restype = ctypes.c_ssize_t if name in ("pread", "pwrite") else ctypes.c_int
        result = call(*arguments)
        if result < 0:
            raise OSError(-result, "spate_%s: %s" % (name, self.calls.spate_last_error().decode()))
        return result

    def open(self, path, flags):
        file = ctypes.c_void_p()
        self.did("open", self.fs, path.encode(), flags, 0o644, ctypes.byref(file))
        return file


class Rival:
    def __init__(self, file_system, number, seed):
        self.library, self.number, self.random = Library(file_system), number, random.Random(seed)
        self.file = self.library.open("/shared", os.O_RDWR)
        self.version, self.name = 0, 0

    def write(self, block):
        self.version += 1
        data = WORD.pack(self.number, self.version) * (BLOCK // WORD.size)
        began = time.monotonic()
        say("begun", began, block, self.version)
        self.library.did("pwrite", self.file, data, ctypes.c_size_t(BLOCK), ctypes.c_long(block * BLOCK))
        say("write", began, time.monotonic(), block, self.version)

    def read(self, block):
        data = ctypes.create_string_buffer(BLOCK)
        began = time.monotonic()
        count = self.library.did("pread", self.file, data, ctypes.c_size_t(BLOCK), ctypes.c_long(block * BLOCK))
        if count != BLOCK:
            sys.exit("a read of block %d returned %d bytes" % (block, count))
        say("read", began, time.monotonic(), block, *WORD.unpack_from(data.raw))

    def make(self):
        """Makes the next name that nobody has made yet."""
        name = "name-%d" % self.name
        self.name += 1
        began = time.monotonic()
        try:
            file = self.library.open("/names/" + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            say("exists", began, time.monotonic(), name)
            return
        say("name", began, time.monotonic(), name)
        self.library.did("close", file)

    def step(self):
        block, choice = self.random.randrange(BLOCKS), self.random.random()
        if choice < 0.5:
            self.write(block)
        elif choice < 0.7:
            self.read(block)
        else:
            self.make()
        time.sleep(0.005)  # keeps the history small


def say(*words):
    print(*words, flush=True)


def main():
    rival = Rival(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    if sys.argv[4:] == ["look"]:
        for block in range(BLOCKS):
            rival.read(block)
    while not select.select([sys.stdin], [], [], 0)[0]:
        rival.step()
    say("ended")


if __name__ == "__main__":
    main()
