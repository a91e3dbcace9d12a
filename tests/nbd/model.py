#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random requests, valid and malformed ones, by several connections on one export, compared with a model of its bytes.
Each gets one answer as the protocol requires, the bytes are the model's, and the server goes on whatever else arrived.
Runs on a local and on a striped file."""
import os
import random
import sys

from common import Cluster, Export, check, timed
from nbd_wire import *  # noqa: F403

KIB, MIB = 1 << 10, 1 << 20
SIZE = 4 * MIB
ROUNDS = 250
UNDER_WAY = 8


class Model:
    def __init__(self, address, name, seed):
        self.address, self.name, self.random = address, name, random.Random(seed)
        self.bytes = bytearray(SIZE)
        self.counts = {}

    def connect(self):
        c = Connection(self.address)
        if self.random.random() < 0.8:
            c.structured_reply()
            c.option(OPT["SET_META_CONTEXT"], context_data(self.name, "base:allocation"))
        return c.go(self.name)

    def length(self):
        return self.random.choice([1, 7, 512, 4096, 5000, 24 * KIB, 65536, 65537, 200_000, 300_000])

    def a_range(self, lane):
        """Returns a range within the lane's share of the export, so that no two requests under way overlap."""
        share = SIZE // UNDER_WAY
        length = min(self.length(), share)
        return lane * share + self.random.randrange(share - length + 1), length

    def right(self, c, lane):
        """Makes one request that must succeed. Returns (cookie, the expected reply)."""
        at, n = self.a_range(lane)
        command = self.random.choice([READ, READ, READ, WRITE, WRITE, WRITE, TRIM, WRITE_ZEROES, FLUSH, CACHE, BLOCK_STATUS])
        fua = self.random.choice([0, 0, 0, FUA])
        if command == READ:
            df = DF if c.structured and n <= 65536 and self.random.random() < 0.2 else 0
            return c.send_request(READ, at, n, df), lambda reply, want=bytes(self.bytes[at:at + n]): self.same(reply, want)
        if command == WRITE:
            self.bytes[at:at + n] = data = self.random.randbytes(n)
            return c.send_request(WRITE, at, n, fua, data), self.fine
        if command == TRIM:  # the contents afterwards are undefined, so the same connection overwrites them at once
            done = c.request(TRIM, at, n, fua) if not c.pending else None
            if done is None:
                return c.send_request(FLUSH), self.fine
            self.fine(done)
            self.bytes[at:at + n] = data = self.random.randbytes(n)
            return c.send_request(WRITE, at, n, 0, data), self.fine
        if command == WRITE_ZEROES:
            self.bytes[at:at + n] = bytes(n)
            return c.send_request(WRITE_ZEROES, at, n, fua | self.random.choice([0, NO_HOLE])), self.fine
        if command == BLOCK_STATUS and c.structured:
            return c.send_request(BLOCK_STATUS, at, n, self.random.choice([0, REQ_ONE])), self.fine
        if command == CACHE:
            return c.send_request(CACHE, at, n), self.fine
        return c.send_request(FLUSH), self.fine

    def fine(self, reply):
        check(reply.error == 0, "command %d at %d + %d: error %d" % (reply.command, reply.offset, reply.length, reply.error))

    def same(self, reply, want):
        self.fine(reply)
        got = b"".join(reply.data[at] for at in sorted(reply.data))
        check(got == want, "READ at %d + %d: other bytes" % (reply.offset, reply.length))

    def wrong(self, c):
        """Makes one request that must be refused and change nothing."""
        n = self.length()
        beyond = self.random.choice([SIZE - n + 1, SIZE, SIZE + 1, (1 << 63) - 1, (1 << 64) - 1, (1 << 64) - n])
        kind = self.random.randrange(5)
        refused = lambda reply: check(reply.error != 0, "command %d at %#x + %d was not refused" % (reply.command, reply.offset, reply.length))  # noqa: E731
        if kind == 0:
            return c.send_request(READ, beyond, n), refused
        if kind == 1:
            return c.send_request(WRITE, beyond, n, 0, bytes(n)), refused
        if kind == 2:
            return c.send_request(self.random.choice([TRIM, WRITE_ZEROES, CACHE, BLOCK_STATUS]), beyond, n), refused
        if kind == 3:
            return c.send_request(self.random.choice([8, 9, 77, 0xFFFF]), 0, 0), refused
        return c.send_request(WRITE, 0, n, self.random.choice([1 << 5, 1 << 14, REQ_ONE | 1 << 9]), bytes(n)), refused

    def burst(self, c):
        wanted = {}
        for lane in range(UNDER_WAY):
            right = self.random.random() < 0.85
            cookie, judge = self.right(c, lane) if right else self.wrong(c)
            wanted[cookie] = judge
            self.counts[right] = self.counts.get(right, 0) + 1
        while wanted:
            reply = c.reply()
            wanted.pop(reply.cookie)(reply)

    def garbage(self):
        """Sends a stream of requests with some bytes changed, over its own connection. It contains no whole write."""
        c = self.connect()
        stream = bytearray()
        for i in range(20):
            command = self.random.choice([READ, FLUSH, CACHE, BLOCK_STATUS, DISC, 99])
            stream += struct.pack(">IHHQQI", REQUEST, self.random.getrandbits(6) & ~FUA, command, i, self.random.randrange(2 * SIZE), self.length())
        for _ in range(self.random.randrange(4)):
            at = self.random.randrange(len(stream) // 28) * 28
            field = self.random.choice([0, 4, 8, 16, 24])  # not the command: it could become a write
            stream[at + field] = self.random.randrange(256)
        with c:
            try:
                c.socket.sendall(stream)
                c.socket.settimeout(0.05)
                while self.random.random() < 0.9 and c.socket.recv(1 << 16):
                    pass
            except OSError:
                pass

    def run(self, rounds):
        connections = [self.connect() for _ in range(3)]
        connections[0].write(0, bytes(self.bytes))
        for number in range(rounds):
            i = self.random.randrange(len(connections))
            self.burst(connections[i])
            if number % 10 == 0:
                self.garbage()
            if self.random.random() < 0.1:
                connections[i].socket.close()
                connections[i] = self.connect()
        for c in connections:
            check(c.read(0, SIZE) == bytes(self.bytes), "other bytes at the end")
            c.socket.close()
        return self.counts


def main():
    seed = int(os.environ.get("SPATE_NBD_SEED") or random.SystemRandom().getrandbits(32))
    print("seed %d (SPATE_NBD_SEED)" % seed, flush=True)
    with Cluster(io=2) as fs:
        path = os.path.join(fs.root, "disk")
        with open(path, "wb") as f:
            f.truncate(SIZE)
        fs.up()
        fs.spate("put", "spate:/disk", input=bytes(SIZE))
        for words in (["--port", "0", path], ["--unix", fs.root + "/s", path], ["--port", "0", "spate:/disk"]):
            with timed(" ".join(words)[-24:]), Export(*words, env=dict(fs.env, SPATE_FS=fs.dir)) as export:
                before = export.descriptors()
                counts = Model(export.address, "", seed).run(ROUNDS)
                check(counts[True] > 1000 and counts[False] > 150, "too little was asked: %s" % counts)
                export.alive()
                check(export.memory_kib() < 400_000, "the server has %d KiB" % export.memory_kib())
                check(export.descriptors() <= before + 8, "descriptors of clients that are gone")


if __name__ == "__main__":
    sys.exit(main())
