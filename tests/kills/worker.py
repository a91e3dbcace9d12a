# SPDX-License-Identifier: Apache-2.0
"""One program at work in a folder of the file system: replaces, removes and reads files, and counts in a locked file.

  worker.py FOLDER TABLE NUMBER SEED [--verify]     by a mount, or below `spate run`
  worker.py FILE_SYSTEM TABLE NUMBER SEED --count   by libspate: it only counts, and its locks are of its own session

It ends with 1 and a sentence as soon as it sees something that must not be. --verify: looks at every file once instead.
"""
import ctypes
import errno
import fcntl
import os
import random
import struct
import sys
import time

from table import SLOTS, WORKERS, Table, content, version_of

COUNT = struct.Struct("<QI")  # the count, and the last worker that counted
# Errors that a holder of leases or locks gets if it stood still or its server restarted. No other error may occur.
TOLD = (errno.EIO,)
GONE = (errno.EIO, errno.ESTALE)  # a read of a removed file after the reader's session had expired


class Wrong(Exception):
    pass


class Library:
    """The functions of os and fcntl that counting needs, through libspate. Locks below `spate run` belong to the
    holder's session, which lives on while a program stands still. Here a program that stands still loses its locks."""

    def __init__(self, file_system):
        self.calls = ctypes.CDLL(os.path.join(os.environ["SPATE_BIN"], "../src/capi/libspate.so"))
        self.fs = ctypes.c_void_p()
        self.did("connect", ctypes.byref(self.fs), file_system.encode(), None)

    def did(self, name, *arguments):
        call = getattr(self.calls, "spate_" + name)
        call.restype = ctypes.c_ssize_t if name in ("pread", "pwrite") else ctypes.c_int
        result = call(*arguments)
        if result < 0:
            raise OSError(-result, "spate_%s: %s" % (name, os.strerror(-result)))
        return result

    def open(self, path, flags, mode):
        file = ctypes.c_void_p()
        self.did("open", self.fs, path.encode(), flags, mode, ctypes.byref(file))
        return file

    def pread(self, file, size, offset):
        data = ctypes.create_string_buffer(size)
        got = self.did("pread", file, data, ctypes.c_size_t(size), ctypes.c_int64(offset))
        return data.raw[:got]

    def pwrite(self, file, data, offset):
        return self.did("pwrite", file, data, ctypes.c_size_t(len(data)), ctypes.c_int64(offset))

    def flock(self, file, how):
        self.did("flock", file, how)

    def close(self, file):
        self.did("close", file)


class Worker:
    def __init__(self, folder, table, number, seed, calls=None):
        self.folder, self.table, self.number = folder, table, number
        self.calls = calls or os
        self.flock = calls.flock if calls else fcntl.flock
        self.random = random.Random(seed)
        self.slots = list(range(SLOTS))  # the slots that may still be changed
        self.done = {}

    def path(self, worker, slot):
        return "%s/%d-%d" % (self.folder, worker, slot)

    def did(self, what):
        self.done[what] = self.done.get(what, 0) + 1

    def work(self):
        self.table.set_head(self.number, 0, 0)
        while not self.table.stopped():
            act = self.count if self.calls is not os else self.random.choices((self.put, self.remove, self.look, self.count), (6, 2, 8, 3))[0]
            try:
                act()
                self.did(act.__name__)
            except OSError as error:
                if error.errno not in TOLD:
                    raise Wrong("%s: %s" % (act.__name__, error))
                self.did(act.__name__ + " told")

    def change(self, slot, odd, make):
        """A change that fails in the middle may have happened or not, so the worker gives up the slot, and readers
        accept both."""
        begun, acknowledged = self.table.slot(self.number, slot)
        version = acknowledged + 1
        version += (version % 2 != odd)
        self.table.set_slot(self.number, slot, version, acknowledged)
        try:
            make(version)
        except OSError:
            self.slots.remove(slot)
            raise
        self.table.set_slot(self.number, slot, version, version)

    def put(self):
        if not self.slots:
            return
        slot = self.random.choice(self.slots)
        new = "%s/new-%d" % (self.folder, self.number)

        def make(version):
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                left = memoryview(content(self.number, slot, version))
                while left:
                    left = left[os.write(fd, left):]
                if self.random.random() < 0.5:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(new, self.path(self.number, slot))
        self.change(slot, 1, make)

    def remove(self):
        there = [slot for slot in self.slots if self.table.slot(self.number, slot)[1] % 2 == 1]
        if there:
            slot = self.random.choice(there)
            self.change(slot, 0, lambda version: os.unlink(self.path(self.number, slot)))

    def look(self):
        begun = [worker for worker in range(WORKERS) if self.table.head(worker)[2]]
        self.look_at(self.random.choice(begun), self.random.randrange(SLOTS))

    def look_at(self, worker, slot):
        """The contents must have been acknowledged before the look, or begun before its end."""
        acknowledged = self.table.slot(worker, slot)[1]
        path = self.path(worker, slot)
        try:
            with open(path, "rb", buffering=0) as file:
                version = version_of(file.readall(), worker, slot)
        except FileNotFoundError:
            version = None
        except ValueError as error:
            raise Wrong("%s holds what was never written: %s" % (path, error))
        except OSError as error:
            if error.errno in GONE:
                return self.did("look told")
            raise
        begun = self.table.slot(worker, slot)[0]
        allowed = range(acknowledged, begun + 1)
        if version not in allowed if version else not any(one % 2 == 0 for one in allowed):
            raise Wrong("%s is version %s; %d was acknowledged, %d begun" % (path, version or "none", acknowledged, begun))

    def count(self):
        """Adds one to the count under an exclusive lock. Two simultaneous holders would see each other."""
        fd = self.calls.open(self.folder + "/count", os.O_RDWR | os.O_CREAT, 0o644)
        highest = self.table.head(self.number)[0]
        try:
            self.flock(fd, fcntl.LOCK_EX)
            self.table.set_head(self.number, highest, 1)
            before = self.table.highest()
            found = self.counted(fd)
            if found[0] < before:
                raise Wrong("the count is %d by %d, but %d was acknowledged: a lost lock's holder has written" % (*found, before))
            time.sleep(self.random.uniform(0, 0.05))  # others arrive while it holds the lock
            self.calls.pwrite(fd, COUNT.pack(found[0] + 1, self.number), 0)
            after = self.counted(fd)
            if after != (found[0] + 1, self.number):
                # Reads still work after a lock was lost; the next lock call reports the loss.
                self.flock(fd, fcntl.LOCK_EX)
                raise Wrong("the count changed under the lock: %s after %s" % (after, found))
            highest = found[0] + 1
        finally:
            self.table.set_head(self.number, highest, 0)
            self.calls.close(fd)

    def counted(self, fd):
        data = self.calls.pread(fd, COUNT.size, 0)
        return COUNT.unpack(data) if data else (0, 0)

    def verify(self):
        for worker in range(WORKERS):
            if self.table.head(worker)[2]:
                for slot in range(SLOTS):
                    self.look_at(worker, slot)
        fd = os.open(self.folder + "/count", os.O_RDONLY)
        found = self.counted(fd)
        os.close(fd)
        if found[0] < self.table.highest():
            raise Wrong("the count is %d, %d was acknowledged" % (found[0], self.table.highest()))


def main():
    by_library = sys.argv[5:] == ["--count"]
    worker = Worker("" if by_library else sys.argv[1], Table(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]),
                    Library(sys.argv[1]) if by_library else None)
    try:
        worker.verify() if sys.argv[5:] == ["--verify"] else worker.work()
    except Wrong as wrong:
        print("worker %s: %s" % (sys.argv[3], wrong), flush=True)
        sys.exit(1)
    print(*("%s=%d" % pair for pair in sorted(worker.done.items())))


main()
