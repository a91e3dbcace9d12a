#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much memory many clients that stop in the middle can make an export hold: writes that never complete, replies
that nobody reads. The memory is bounded, other clients make progress, and a client that holds memory that others need
is dropped."""
import contextlib
import os
import select
import struct
import sys
import tempfile
import threading
import time

from common import SANITIZED, Export, check, skip, timed
from nbd_wire import *  # noqa: F403

KIB, MIB = 1 << 10, 1 << 20
SIZE = 64 * MIB
LARGE = 32 * MIB
BUDGET = 128 * MIB // LARGE  # as many of them at once
PATIENCE = 60.0  # seconds of waiting until such clients are dropped


class Stalling(Connection):
    """A client whose write never completes: it sends all but the last byte, or half of it and then single bytes."""
    PAYLOAD = memoryview(b"s" * LARGE)

    def __init__(self, address, drips):
        super().__init__(address)
        self.go("")
        self.send_request(WRITE, 0, LARGE)
        self.socket.setblocking(False)
        self.sent, self.drips, self.gone = 0, drips, False

    def push(self):
        limit = LARGE // 2 if self.drips else LARGE - 1
        try:
            if self.sent < limit:
                while self.sent < limit:
                    self.sent += self.socket.send(self.PAYLOAD[self.sent:limit])
            elif self.drips:
                self.sent += self.socket.send(b"d")
            else:
                self.gone = self.socket.recv(1) == b""
        except BlockingIOError:
            pass
        except OSError:
            self.gone = True


class Aside:
    """An honest client's large write at the same time. It asks for memory now. Sets .ended, and .error on failure."""

    def __init__(self, address, data):
        self.client, self.error, self.ended = Connection(address).go(""), None, False
        self.client.socket.settimeout(PATIENCE)
        self.cookie = self.client.send_request(WRITE, LARGE, LARGE)
        threading.Thread(target=self.run, args=(data,), daemon=True).start()

    def run(self, data):
        try:
            with self.client:
                self.client.send(data)
                check(self.client.reply(self.cookie).error == 0, "refused")
        except Exception as error:  # reported by the test's own thread
            self.error = error
        self.ended = True


def said(export):
    os.set_blocking(export.process.stderr.fileno(), False)
    return (export.process.stderr.read() or b"").decode()


def watch(export, step, until, most):
    """Waits for the condition. Returns by how much the export's memory exceeds that of the first call at most, in KiB."""
    before, held, deadline = export.__dict__.setdefault("before", export.memory_kib()), 0, time.monotonic() + PATIENCE
    while not until():
        check(time.monotonic() < deadline, "who is honest does not get on, or nobody is dropped")
        step()
        held = max(held, export.memory_kib() - before)
        check(held < most, "the export holds %d KiB more" % held)
    return held


def unfinished_writes(path, *options):
    data = os.urandom(LARGE)
    with Export(*options, path) as export, contextlib.ExitStack() as stack:
        small = stack.enter_context(Connection(export.address)).go("")
        clients = [stack.enter_context(Stalling(export.address, drips=i % 2)) for i in range(BUDGET + 1)]
        # These clients hold the memory, so a new connection has to wait.
        held = watch(export, lambda: [c.push() for c in clients], lambda: sum(c.sent >= LARGE // 2 for c in clients) >= BUDGET, 200 * KIB)
        honest = Aside(export.address, data)
        clients += [stack.enter_context(Stalling(export.address, drips=i % 2)) for i in range(40 - len(clients))]

        def step():
            for c in clients:
                if not c.gone:
                    c.push()
            small.write(0, os.urandom(4 * KIB))
            select.select([], [], [], 0.02)

        held = max(held, watch(export, step, lambda: honest.ended and sum(c.gone for c in clients) >= BUDGET, 200 * KIB))
        check(honest.error is None, "the honest write failed: %r" % honest.error)
        check(small.read(LARGE, LARGE) == data, "other bytes of the honest write")
        lines = [line for line in said(export).splitlines() if "others wait for memory" in line]
        check(len(lines) >= BUDGET and "does not send the rest of a write" in lines[0], "the log says %r" % lines)
        print("unfinished writes: %d KiB held, %d dropped" % (held, len(lines)))


def untaken_replies(path, *options):
    """Large replies that use buffers: with TLS, and of striped files."""
    with Export("--sendfile-from", "1G", *options, path) as export, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Connection(export.address)) for _ in range(40)]
        for c in clients:
            c.go("").send_request(READ, 0, LARGE)
        small = stack.enter_context(Connection(export.address)).go("")
        honest = []

        lines = []  # of the dropped clients: they have not read earlier data and do not see the end

        def dropped():
            lines.extend(line for line in said(export).splitlines() if "does not take a reply" in line)
            return len(lines)

        def step():
            if not honest:
                honest.append(Aside(export.address, bytes(LARGE)))
            small.read(0, 4 * KIB)
            select.select([], [], [], 0.02)

        held = watch(export, step, lambda: dropped() >= BUDGET - 1, 250 * KIB)
        for c in clients:
            c.socket.close()
        held = max(held, watch(export, step, lambda: honest[0].ended, 250 * KIB))
        check(honest[0].error is None, "the honest write failed: %r" % honest[0].error)
        print("untaken replies: %d KiB held, %d dropped" % (held, len(lines)))


def untaken_small_replies(path, *options):
    """Gathered replies to many clients. Clients that read theirs make progress."""
    with Export("--sendfile-from", "1G", *options, path) as export, contextlib.ExitStack() as stack:
        before = export.memory_kib()
        clients = [stack.enter_context(Connection(export.address)) for _ in range(120)]
        for c in clients:
            c.go("").send(struct.pack(">IHHQQI", REQUEST, 0, READ, 1, 0, 128 * KIB) * 100)
        small = stack.enter_context(Connection(export.address)).go("")
        for _ in range(200):
            small.read(0, 128 * KIB)
            small.write(0, bytes(8 * KIB))
        held = export.memory_kib() - before
        check(held < 420 * KIB, "the export holds %d KiB more" % held)
        print("small untaken replies: %d KiB held" % held)


def main():
    if SANITIZED:
        skip("a sanitizer keeps freed memory")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        path = folder + "/disk"
        with open(path, "wb") as f:
            f.write(b"x" * SIZE)
        chosen = [globals()[name] for name in sys.argv[1:]] or [unfinished_writes, untaken_replies, untaken_small_replies]
        for test in chosen:
            for options in (("--port", "0"), ("--unix", folder + "/socket")) if test is untaken_small_replies else (("--port", "0"),):
                with timed(test.__name__):
                    test(path, *options)


if __name__ == "__main__":
    sys.exit(main())
