#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How an export handles a file system that fails: syncs that fail, missing system calls, no space; and more clients
than it has descriptors or places for. strace makes the system calls fail."""
import contextlib
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from common import BIN, SANITIZED, Export, check, timed, wait_until
from nbd_wire import *  # noqa: F403
from paths import system_calls

KIB, MIB = 1 << 10, 1 << 20
SIZE = 16 * MIB


@contextlib.contextmanager
def failing(export, **calls):
    """Makes these system calls of the export fail while the block runs: failing(export, fdatasync="EIO")."""
    words = [word for call, error in calls.items() for word in ("-e", "inject=%s:error=%s" % (call, error))]
    tracer = subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-e", "trace=" + ",".join(calls), *words, "-p", str(export.process.pid)],
                              stderr=subprocess.PIPE)
    try:
        check("attached" in tracer.stderr.readline().decode(), "strace may not trace")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=20)


def may_trace():
    return shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode == 0


def lost_writes(path):
    """The kernel reports a lost write once. Every client that was connected gets the error at each of its flushes."""
    with Export("--port", "0", path) as export, Connection(export.address) as one, Connection(export.address) as other:
        one.go("").write(0, b"a" * 4096)
        other.go("").write(4096, b"b" * 4096)
        with failing(export, fdatasync="EIO"):
            check(one.request(FLUSH).error == EIO, "a FLUSH that failed did not say so")
        for _ in range(2):
            errors = one.request(FLUSH).error, other.request(FLUSH).error, other.request(WRITE, 0, 512, FUA, bytes(512)).error
            check(errors == (EIO, EIO, EIO), "nobody said that a write may be lost: %r" % (errors,))
        with Connection(export.address) as later:
            check(later.go("").request(FLUSH).error == 0, "FLUSH failed for a client that has lost nothing")


def without_holes(path):
    """If holes cannot be punched, zeros are written, unless FAST_ZERO was requested. Block status reports everything as
    data."""
    with Export("--port", "0", path) as export, Connection(export.address) as c:
        c.structured_reply()
        c.option(OPT["SET_META_CONTEXT"], context_data("", "base:allocation"))
        c.go("")
        data = os.urandom(MIB)
        for error in ("EOPNOTSUPP", "EINVAL"):
            with failing(export, fallocate=error, lseek="EINVAL"):
                for flags in (0, NO_HOLE):
                    c.write(0, data)
                    check(c.request(WRITE_ZEROES, 1001, 700_003, flags | FAST_ZERO).error == ENOTSUP, "FAST_ZERO was not refused")
                    check(c.read(0, MIB) == data, "what FAST_ZERO refused has changed the data")
                    check(c.request(WRITE_ZEROES, 1001, 700_003, flags).error == 0, "WRITE_ZEROES failed")
                    check(c.read(0, MIB) == data[:1001] + bytes(700_003) + data[701_004:], "other bytes")
                check(c.request(TRIM, 0, MIB).error == 0, "TRIM, which is only a hint, failed")
                check(c.request(BLOCK_STATUS, 0, MIB).extents == [(MIB, 0)], "holes where nobody knows of any")
        with failing(export, fallocate="ENOSPC"):
            check(c.request(WRITE_ZEROES, 0, 4096).error == ENOSPC, "no room, and nobody says so")


def no_room(path):
    """A write without space returns ENOSPC, and none of its bytes go into the next write."""
    with Export("--port", "0", path) as export, Connection(export.address) as c:
        c.structured_reply()
        c.go("").write(0, bytes(SIZE))
        limit = 8 * MIB + 4096
        resource.prlimit(export.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        for flags in (0, FUA):
            for length in (4096, 100_000, 512 * KIB, 512 * KIB, 2 * MIB):
                # Several in a row: a large payload goes through a pipe if one came before.
                data, crossing = os.urandom(length), limit - length // 2 // 4096 * 4096
                c.write(6 * MIB, data, flags)
                check(c.request(WRITE, 9 * MIB, length, flags, b"x" * length).error == ENOSPC, "%d bytes behind the end of all room" % length)
                c.write(1000, data, flags)
                check(c.request(WRITE, crossing, length, flags, b"y" * length).error == ENOSPC, "%d bytes for which there is not all room" % length)
                c.write(3 * MIB, data[::-1], flags)
                check(c.read(1000, length) == data and c.read(3 * MIB, length) == data[::-1], "other bytes after a write that found no room")
                check(c.read(max(limit, 9 * MIB), length) == bytes(length), "something is there for which there was no room")


def heard_from(clients):
    """Returns those to whom the server has sent something by now."""
    poll = select.poll()
    for c in clients:
        poll.register(c.socket, select.POLLIN)
    there = {fd for fd, _ in poll.poll(0)}
    return [c for c in clients if c.socket.fileno() in there]


def crowd(path, folder):
    """The export serves as many clients as it has places. One more waits until a place is free."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        return print("no crowd: %d descriptors" % hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with Export("--unix", os.path.join(folder, "socket"), path) as export:
            clients = [Connection(export.address) for _ in range(1024)]
            with Connection(export.address, handshake=False) as waits:
                clients[500].go("").read(0, 512)
                check(not heard_from([waits]), "more than 1024 connections")
                clients.pop().socket.close()
                waits.read_init()
            for c in clients:
                c.socket.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def no_descriptors(path):
    """If there are no descriptors for more clients, the connected ones are served, and the others as soon as
    descriptors are free."""
    with Export("--port", "0", path) as export:
        first = Connection(export.address)
        first.go("").read(0, 512)
        room = export.descriptors() + 4
        resource.prlimit(export.process.pid, resource.RLIMIT_NOFILE, (room, room))
        more = [Connection(export.address, handshake=False) for _ in range(16)]
        wait_until(lambda: heard_from(more), "nobody is served")
        check(len(first.read(0, 4096)) == 4096, "who was there before is not served")
        there = heard_from(more)
        check(len(there) < len(more), "16 clients by 4 descriptors")
        calls = system_calls(export.process.pid, lambda: [first.read(0, 4096) for _ in range(64)])
        check(calls is None or calls.get("accept4", 0) < 32, "it tries all the time: %s" % calls)
        for c in [first, *there]:
            c.socket.close()
        for c in more:
            if c not in there:
                c.read_init()  # has waited all the time
                c.socket.close()


def main():
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as other, tempfile.TemporaryDirectory(dir=BIN) as folder:
        for path in (other + "/disk", folder + "/disk"):
            with open(path, "wb") as f:
                f.truncate(SIZE)
            tests = [no_room] + ([lost_writes, without_holes] if may_trace() else [])
            for test in tests:
                with timed(test.__name__):
                    test(path)
        if not may_trace():
            print("system calls that fail were left out: there is no strace that may trace")
        with timed("crowd"):
            crowd(path, other)
        if SANITIZED:
            print("no_descriptors was left out: a sanitizer itself needs descriptors to look at an object")
            return
        with timed("no_descriptors"):
            no_descriptors(path)


if __name__ == "__main__":
    sys.exit(main())
