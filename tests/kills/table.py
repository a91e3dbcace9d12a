# SPDX-License-Identifier: Apache-2.0
"""The table of operations that each worker has begun, and of those acknowledged to it, in memory that all processes of
a run share.

A slot is a file that one worker alone replaces and removes. Its versions count up: odd ones are contents, even ones say that
the name is gone. A worker that is killed leaves a version that may have been made or not; its slots are never changed again.
"""
import mmap
import os
import struct

SLOTS, WORKERS = 6, 600
SLOT = struct.Struct("<II")     # begun, acknowledged
HEAD = struct.Struct("<QII")    # the highest count acknowledged to the worker; it holds the lock; it has begun
STRIDE = HEAD.size + SLOTS * SLOT.size
STOP_AT = WORKERS * STRIDE      # 1: all workers must end
SIZE = STOP_AT + 8


class Table:
    def __init__(self, path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if os.fstat(fd).st_size < SIZE:
            os.truncate(path, SIZE)
        self.memory = mmap.mmap(fd, SIZE)
        os.close(fd)

    def slot(self, worker, slot):
        """Returns (begun, acknowledged)."""
        return SLOT.unpack_from(self.memory, worker * STRIDE + HEAD.size + slot * SLOT.size)

    def set_slot(self, worker, slot, begun, acknowledged):
        SLOT.pack_into(self.memory, worker * STRIDE + HEAD.size + slot * SLOT.size, begun, acknowledged)

    def head(self, worker):
        """Returns (count, holds, has begun)."""
        return HEAD.unpack_from(self.memory, worker * STRIDE)

    def set_head(self, worker, count, holds):
        HEAD.pack_into(self.memory, worker * STRIDE, count, holds, 1)

    def highest(self):
        """Returns the highest count that was acknowledged to any worker."""
        return max(self.head(worker)[0] for worker in range(WORKERS))

    def stopped(self):
        return self.memory[STOP_AT] == 1

    def stop(self):
        self.memory[STOP_AT] = 1


def content(worker, slot, version):
    """Returns contents in which every word names its writer. Sizes reach over several strips."""
    word = struct.pack("<IIII", worker, slot, version, worker ^ slot ^ version)
    return word * (1 + (version * 7919 + slot * 977) % 9000)


def version_of(data, worker, slot):
    """Returns the version that these bytes are. Raises ValueError if they are no version or only part of one."""
    if len(data) < 16:
        raise ValueError("%d bytes" % len(data))
    whose = struct.unpack_from("<IIII", data)
    if whose[:2] != (worker, slot) or data != content(*whose[:3]):
        raise ValueError("%d bytes that begin with %s" % (len(data), whose))
    return whose[2]
