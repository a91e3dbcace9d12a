# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the shared memory in docs/wire-shm.md: a connector that writes anything it likes into it."""
import array
import mmap
import os
import socket
import struct

READY = 3
CONTROL, BULK = 0, 1
SLOT = 64
SIDE_BLOCK_OF_ACCEPTOR = 256
LANES = 4096
NARROW = ((32, 16384), (16, 4096))  # slots and bytes of each class, since version 2


class Refused(Exception):
    """Raised when the server has ended the connection or refused."""


class ShmPeer:
    """One connection to the socket file `path`, up to the mapped segment."""

    def __init__(self, path, version=2):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.bell = os.eventfd(0)
        try:
            self.socket.connect(path)
            limits = struct.pack("<QQII", 1 << 20, 1 << 18, 1024, 0)
            hello = b"SPATEshm" + struct.pack("<HHI", 1, version, 0) + os.urandom(16) + limits + bytes(8)
            self.send(hello, self.bell)
            self.welcome()
        except OSError as e:
            self.close()
            raise Refused(str(e)) from e

    def welcome(self):
        fds = array.array("i")
        data, ancillary, _, _ = self.socket.recvmsg(128, socket.CMSG_LEN(2 * fds.itemsize))
        for _, _, passed in ancillary:
            fds.frombytes(passed[:len(passed) - len(passed) % fds.itemsize])
        try:
            status, version = struct.unpack_from("<HH", data, 8) if len(data) == 64 else (None, 0)
            if status != 0 or len(fds) != 2:
                raise Refused("status %s" % status)
            slots, sizes = struct.unpack_from("<II", data, 40), struct.unpack_from("<QQ", data, 48)
            self.lanes, self.counters = (NARROW, 192) if version >= 2 else (tuple(zip(slots, sizes)), 64)
            self.memory = mmap.mmap(fds[0], os.fstat(fds[0]).st_size)
            self.next = [[0, 0], [0, 0]]  # slot and byte of each class
        finally:
            for fd in fds:
                os.close(fd)

    def send(self, data, *fds):
        self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def ring(self):
        self.send(struct.pack("<IIQ", 1, 0, 0))

    def taken(self, c):
        """Returns how many payload bytes the server has taken out of this side's lane."""
        return struct.unpack_from("<Q", self.memory, SIDE_BLOCK_OF_ACCEPTOR + self.counters + 16 + 8 * c)[0]

    def put(self, c, kind, length, chunk, tag=1):
        """Writes one frame without checking for room. The payload is whatever lies there."""
        slots, size = self.lanes[c]
        lane = LANES + sum(2 * (s * SLOT + b) for s, b in self.lanes[:c]) + slots * SLOT + size
        number, at = self.next[c]
        begin = lane + number % slots * SLOT
        struct.pack_into("<QQQQ", self.memory, begin + 8, tag, length, 0, chunk)
        struct.pack_into("<Q", self.memory, begin, (number + 1) & 0xFFFFFFFF | kind << 32 | c << 40)
        self.next[c] = [number + 1, at + (chunk + 63) // 64 * 64]

    def fill(self, c):
        """Fills a lane with frames that no receiver waits for. Returns False if the server has not taken the earlier
        ones."""
        if self.taken(c) != self.next[c][1]:
            return False
        chunk = min(32768, self.lanes[c][1] // 4)
        for _ in range(self.lanes[c][1] // chunk):
            self.put(c, READY, chunk, chunk)
        for at in range(LANES, len(self.memory), 4096):
            self.memory[at + 8] |= 0  # now each page is in memory
        self.ring()
        return True

    def close(self):
        self.socket.close()
        os.close(self.bell)
