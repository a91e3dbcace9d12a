#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The system calls that an export of a local file makes: small reads together, large ones by sendfile, several of them
ahead of the reader; a search for holes only for block status; syncs only where they are due. Zeros and trims leave no
blocks, nor does a copy of holes."""
import array
import fcntl
import os
import sys
import tempfile
import termios

from common import BIN, Cluster, Export, check, timed, wait_until
from cluster import skip
from nbd_wire import *  # noqa: F403
from paths import forget_pages, refuses_direct, system_calls

KIB, MIB = 1 << 10, 1 << 20
LOOKS = ("lseek", "ioctl")  # SEEK_DATA and SEEK_HOLE, FIEMAP
SENDS = ("sendmsg", "sendto", "write", "writev")
SYNCS = ("fdatasync", "fsync", "sync_file_range")
COPIES = ("preadv2", "preadv", "pread64", "read")


def total(calls, names):
    return sum(calls.get(name, 0) for name in names)


def many(c, length, count, between=lambda: None):
    """Sends this many reads at once and receives all replies. `between` runs before the first reply is read."""
    def work():
        requests = b""
        for i in range(count):
            c.cookie += 1
            c.pending[c.cookie] = reply = Reply(c.cookie)
            reply.command, reply.offset, reply.length = READ, i * length, length
            requests += struct.pack(">IHHQQI", REQUEST, 0, READ, c.cookie, i * length, length)
        c.send(requests)
        between()
        for _ in range(count):
            check(c.reply().error == 0, "READ failed")
    return work


def looked(export, work):
    calls = system_calls(export.process.pid, work)
    if calls is None:
        skip("no strace that may trace")
    return calls


def reads(export, c, crossing):
    """Below the size at which sendfile is cheaper, one call sends many replies. From that size on the export uses
    sendfile. Holes make no difference."""
    small = looked(export, many(c, 4 * KIB, 64))
    check(total(small, SENDS) <= 16, "64 replies of 4 KiB in %d calls: %s" % (total(small, SENDS), small))
    check(small.get("sendfile", 0) == 0 and total(small, LOOKS) == 0, "small reads: %s" % small)
    below, above = looked(export, many(c, crossing - KIB, 8)), looked(export, many(c, crossing, 8))
    check(below.get("sendfile", 0) == 0 and total(below, COPIES) >= 8, "reads of %d: %s" % (crossing - KIB, below))
    check(above.get("sendfile", 0) >= 8 and above.get("preadv2", 0) == 0, "reads of %d: %s" % (crossing, above))
    large = looked(export, many(c, 256 * KIB, 16))
    check(large.get("sendfile", 0) >= 16 and large.get("preadv2", 0) == 0, "reads of 256 KiB: %s" % large)
    check(total(large, LOOKS) + total(above, LOOKS) + total(below, LOOKS) == 0, "a read looks for holes: %s" % large)
    status = looked(export, lambda: c.request(BLOCK_STATUS, 0, MIB))
    check(status.get("lseek", 0) > 0, "block status does not look either, so this test cannot see it: %s" % status)


def wakes(export, c):
    """A client that sends one request after the other wakes the server once for each. The server does not poll again
    for the event that woke it."""
    calls = looked(export, lambda: [c.read(at * 4 * KIB, 4 * KIB) for at in range(64)])
    check(total(calls, ("epoll_wait", "epoll_pwait")) < 64 * 3 // 2, "64 reads in a row: %s" % calls)


def ahead(c):
    """Over a Unix socket large replies wait in the socket for a late reader. The export does not send them one by one
    as the client reads."""
    with open("/proc/sys/net/core/wmem_max") as f:
        allowed = int(f.read())
    if allowed < MIB:
        return print("replies waiting in a socket were not looked at: the kernel allows %d bytes" % allowed)
    take = many(c, 256 * KIB, 16, between=lambda: wait_until(lambda: waiting(c) >= MIB, "a client that reads nothing has less than four replies"))
    take()


def waiting(c):
    """Returns how many bytes have arrived and were not read."""
    count = array.array("i", [0])
    fcntl.ioctl(c.socket, termios.FIONREAD, count)
    return count[0]


def syncs(export, c):
    """FLUSH and FUA reach the file's device. No other command does."""
    check(total(looked(export, lambda: c.write(0, b"x" * 4096)), SYNCS) == 0, "a plain write waits for the device")
    for what, work in (("FLUSH", lambda: c.request(FLUSH)), ("a write with FUA", lambda: c.write(0, b"y" * 4096, FUA)),
                       ("a large one", lambda: c.write(0, b"y" * 300000, FUA)), ("zeros with FUA", lambda: c.request(WRITE_ZEROES, 0, 4096, FUA)),
                       ("TRIM with FUA", lambda: c.request(TRIM, 0, 4096, FUA))):
        calls = looked(export, work)
        check(total(calls, SYNCS) > 0, "%s is not synced: %s" % (what, calls))


def small_writes(export, c):
    """Writes cannot change the file's size. The export asks for it once for all writes that arrive together."""
    def work():
        cookies = range(1, 65)
        c.send(b"".join(struct.pack(">IHHQQI", REQUEST, 0, WRITE, cookie, cookie * 512, 512) + bytes([cookie]) * 512 for cookie in cookies))
        for _ in cookies:
            check(struct.unpack(">II", c.receive(8)) == (SIMPLE, 0) and struct.unpack(">Q", c.receive(8))[0] in cookies, "a write failed")
    calls = looked(export, work)
    asked = total(calls, ("newfstatat", "fstat", "statx"))
    check(asked <= 16, "64 writes in one go ask %d times: %s" % (asked, calls))
    check(c.read(512, 64 * 512) == b"".join(bytes([cookie]) * 512 for cookie in range(1, 65)), "other bytes")


def writes(export, c):
    """A large payload does not pass through the program's memory, except if its pieces filled a pipe before all of it
    had arrived."""
    data = os.urandom(512 * KIB)
    calls = looked(export, lambda: [c.write(at * 512 * KIB, data) for at in range(16)])
    check(calls.get("splice", 0) >= 16 and total(calls, ("pwrite64", "pwritev")) <= 8, "large writes: %s" % calls)
    # A Unix socket holds few bytes at once, so it is cheaper to copy a payload that fits in a buffer.
    by_pipe = not isinstance(export.address, str)
    calls = looked(export, lambda: [c.write(at * 256 * KIB, data[:256 * KIB]) for at in range(16)])
    check((calls.get("splice", 0) >= 16) == by_pipe and (calls.get("pwrite64", 0) >= 16) != by_pipe, "writes of 256 KiB: %s" % calls)


def blocks(path):
    return os.stat(path).st_blocks * 512


def room(c, path):
    """TRIM and WRITE_ZEROES free the space; NO_HOLE keeps it."""
    c.write(0, b"z" * (8 * MIB))
    had = blocks(path)
    check(c.request(TRIM, 0, 4 * MIB).error == 0 and blocks(path) <= had - 4 * MIB, "TRIM leaves %d of %d bytes" % (blocks(path), had))
    check(c.request(WRITE_ZEROES, 4 * MIB, 4 * MIB).error == 0 and blocks(path) <= had - 8 * MIB, "WRITE_ZEROES leaves %d of %d bytes" % (blocks(path), had))
    check(c.request(WRITE_ZEROES, 0, 8 * MIB, NO_HOLE).error == 0 and blocks(path) >= had, "NO_HOLE has %d of %d bytes" % (blocks(path), had))
    check(c.read(0, 8 * MIB) == bytes(8 * MIB), "not zeros")


def cold(folder):
    """Another thread than that of the loop brings data into the page cache before it is sent. CACHE does so, too."""
    path = os.path.join(folder, "spate-nbd-cold-%d" % os.getpid())
    data = os.urandom(8 * MIB)
    try:
        with open(path, "w+b") as f, Export("--port", "0", "--read-only", path) as export, Connection(export.address) as c:
            f.write(data)
            f.flush()
            c.structured_reply()
            c.go("")

            for length in (4 * KIB, 64 * KIB, MIB):
                forget_pages(f)
                calls = looked(export, lambda: check(c.read(2 * MIB, length) == data[2 * MIB:2 * MIB + length], "other bytes"))
                brought = calls.get("fadvise64", 0) if length > 4 * KIB else calls.get("preadv2", 0) - 1  # the first would have waited
                check(brought > 0, "%d bytes are read where others wait: %s" % (length, calls))
                warm = looked(export, lambda: c.read(2 * MIB, length))
                check(warm.get("fadvise64", 0) == 0 and warm.get("preadv2", 0) <= 1, "what is there is fetched again: %s" % warm)
            forget_pages(f)
            check(c.request(CACHE, 4 * MIB, MIB).error == 0, "CACHE failed")
            calls = looked(export, lambda: c.read(4 * MIB, MIB))
            check(calls.get("fadvise64", 0) == 0, "CACHE has brought nothing: %s" % calls)
    finally:
        if os.path.exists(path):
            os.unlink(path)


def main():
    with tempfile.TemporaryDirectory(dir=BIN) as folder:
        if refuses_direct(folder):
            print("cold pages were not looked at: the build folder is memory, or as good as that")
        else:
            with timed("cold"):
                cold(folder)
    with Cluster(io=1) as fs:
        path = os.path.join(fs.root, "disk")
        with open(path, "wb") as f:
            f.write(os.urandom(16 * MIB))
        for where, crossing in ((("--port", "0"), 24 * KIB), (("--unix", os.path.join(fs.root, "socket")), 8 * KIB)):
            with Export(*where, path) as export, Connection(export.address) as c:
                c.structured_reply()
                c.option(OPT["SET_META_CONTEXT"], context_data("", "base:allocation"))
                c.go("")
                c.read(0, MIB)
                for test in (reads, wakes, syncs, small_writes, writes):
                    with timed("%s %s" % (test.__name__, where[0])):
                        test(export, c, crossing) if test is reads else test(export, c)
                if where[0] == "--unix":
                    ahead(c)
                room(c, path)


if __name__ == "__main__":
    sys.exit(main())
