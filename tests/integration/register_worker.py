# SPDX-License-Identifier: Apache-2.0
"""A client that does one call for each line of its standard input, through libspate: register_worker.py FILE_SYSTEM FILE. FILE holds
one number. The line, and the answer when the call has ended:

  w NUMBER       w NUMBER                    has PATH       has PATH, or lacks PATH
  r              r NUMBER                    make PATH      made PATH, or exists PATH
                                             remove PATH    removed PATH

Any other error of a call is "error TEXT". It ends when its standard input does."""
import ctypes
import errno
import os
import struct
import sys

from rival import Library

WORD = struct.Struct("<Q")


class Register:
    def __init__(self, file_system, path):
        self.library = Library(file_system)
        self.file = self.library.open(path, os.O_RDWR | os.O_CREAT)

    def w(self, number):
        self.library.did("pwrite", self.file, WORD.pack(int(number)), ctypes.c_size_t(WORD.size), ctypes.c_long(0))
        return "w", number

    def r(self):
        data = ctypes.create_string_buffer(WORD.size)
        count = self.library.did("pread", self.file, data, ctypes.c_size_t(WORD.size), ctypes.c_long(0))
        return "r", WORD.unpack(data.raw)[0] if count == WORD.size else "nothing"

    def has(self, path):
        try:
            self.library.did("access", self.library.fs, path.encode(), os.F_OK)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
            return "lacks", path
        return "has", path

    def make(self, path):
        try:
            file = self.library.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            return "exists", path
        self.library.did("close", file)
        return "made", path

    def remove(self, path):
        self.library.did("unlink", self.library.fs, path.encode())
        return "removed", path


def main():
    register = Register(sys.argv[1], sys.argv[2])
    print("ready", flush=True)
    for line in sys.stdin:
        what, *words = line.split()
        try:
            print(*getattr(register, what)(*words), flush=True)
        except OSError as error:
            print("error", error, flush=True)


main()
