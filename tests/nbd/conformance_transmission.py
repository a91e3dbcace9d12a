# SPDX-License-Identifier: Apache-2.0
"""Checks of the transmission phase that change nothing."""
import random
import struct

from conformance_check import *  # noqa: F403
from nbd_wire import *  # noqa: F403


@must("sets HAS_FLAGS, and READ_ONLY goes without TRIM, WRITE_ZEROES and FAST_ZERO being usable")
def transmission_flags(s):
    with s.serve(structured=False) as c:
        assert c.flags & HAS_FLAGS, "HAS_FLAGS is not set"
        assert not c.flags & SEND_FAST_ZERO or c.flags & SEND_WRITE_ZEROES or c.flags & READ_ONLY, "FAST_ZERO without WRITE_ZEROES"


@must("answers each of many requests under way by its cookie, whatever the cookies are")
def many_requests(s):
    for structured in (False, True):
        with s.serve(structured=structured) as c:
            size = min(c.size, 1 << 20)
            cookies = [0, 0xFFFFFFFFFFFFFFFF] + [random.getrandbits(64) for _ in range(200)]
            lengths = [1, 512, 4096, 65536, 3]
            wanted = {}
            for i, cookie in enumerate(cookies):
                length = min(lengths[i % len(lengths)], size)
                offset = random.randrange(size - length + 1)
                wanted[c.send_request(READ, offset, length, cookie=cookie)] = length
            for _ in cookies:
                reply = c.reply()
                equal(sum(len(d) for d in reply.data.values()), wanted.pop(reply.cookie), "bytes")


@should("refuses reads beyond the end by EINVAL, and serves on")
def read_beyond(s):
    for structured in (False, True):
        with s.serve(structured=structured) as c:
            for offset, length in ((c.size, 1), (c.size - 1, 2), (0xFFFFFFFFFFFFFFFF, 1), (0x8000000000000000, 4096), (0xFFFFFFFFFFFFFFFF, 0xFFFFFFFF)):
                equal(c.request(READ, offset, length).error, EINVAL, "error at %#x + %#x" % (offset, length))
            alive(c)


@must("READ of everything up to 32 MiB gives exactly these bytes, at the very end, too")
def read_sizes(s):
    for structured in (False, True):
        with s.serve(structured=structured) as c:
            for length in (1, 511, 65535, 65536, 65537, 262144, 1 << 20, 32 << 20):
                if length <= c.size:
                    equal(len(c.read(c.size - length, length)), length, "bytes")


@must("READ with DF up to 64 KiB comes in one chunk of data")
def dont_fragment(s):
    with s.serve() as c:
        reply = c.request(READ, 0, min(c.size, 65536), DF)
        equal((reply.error, len(reply.data)), (0, 1), "error and chunks of data")


@must("a read that is too large is refused or done, and the connection serves on")
def huge_read(s):
    with s.serve() as c:
        assert c.request(READ, 0, 0xFFFFFFFF).error != 0 or c.size >= 0xFFFFFFFF, "not refused"
        alive(c)


@should("an unknown command is EINVAL, and the connection serves on")
def unknown_command(s):
    for structured in (False, True):
        with s.serve(structured=structured) as c:
            for command in (8, 99, 0xFFFF):
                equal(c.request(command, 0, 0).error, EINVAL, "error")
            alive(c)


@should("unknown command flags are EINVAL")
def unknown_flags(s):
    with s.serve() as c:
        for command, flags in ((READ, 1 << 15), (READ, NO_HOLE), (FLUSH, REQ_ONE), (READ, FAST_ZERO)):
            equal(c.request(command, 0, 512 if command == READ else 0, flags).error, EINVAL, "error of %d with %#x" % (command, flags))
        alive(c)


@must("accepts FUA with every command once it is offered")
def fua_everywhere(s):
    with s.serve() as c:
        s.offers(c, SEND_FUA, "FUA")
        equal(c.request(READ, 0, 512, FUA).error, 0, "error of READ")
        if c.flags & SEND_FLUSH:
            equal(c.request(FLUSH, 0, 0, FUA).error, 0, "error of FLUSH")
        if c.flags & SEND_CACHE:
            equal(c.request(CACHE, 0, 512, FUA).error, 0, "error of CACHE")


@should("drops a client whose request has a wrong magic number: where the next one begins is not known")
def wrong_request_magic(s):
    with s.serve() as c:
        c.send(struct.pack(">IHHQQI", 0x12345678, 0, READ, 1, 0, 512) + bytes(64))
        assert c.closed(), "it was kept"


@must("DISC: outstanding requests are answered, then the connection is closed without a reply")
def disconnect(s):
    with s.serve() as c:
        length = min(c.size, 1 << 20)
        for _ in range(8):
            c.send_request(READ, 0, length)
        c.send(struct.pack(">IHHQQI", REQUEST, 0, DISC, 99, 0, 0))
        for _ in range(8):
            equal(c.reply().error, 0, "error")
        assert c.closed(), "it was kept, or something else was sent"


@must("BLOCK_STATUS: extents that begin at the offset, none empty, not beyond what was asked for, status of base:allocation only")
def block_status(s):
    with s.serve(contexts=["base:allocation"]) as c:
        length = min(c.size, 16 << 20)
        reply = c.request(BLOCK_STATUS, 0, length)
        equal((reply.error, reply.context), (0, c.context), "error and context")
        # The last extent may reach further, as later versions of the protocol allow.
        assert all(n > 0 for n, _ in reply.extents) and sum(n for n, _ in reply.extents[:-1]) < length, "extents %r" % reply.extents
        assert sum(n for n, _ in reply.extents) <= c.size, "beyond the export: %r" % reply.extents
        assert all(flags & ~3 == 0 for _, flags in reply.extents), "unknown status flags"
        offset = 0
        for size, flags in reply.extents[:16]:  # extents reported as zero must be zero
            if flags & 2:
                equal(c.read(offset, min(size, 65536)).strip(b"\0"), b"", "bytes of zero extents")
            offset += size


@must("BLOCK_STATUS with REQ_ONE: one extent")
def block_status_one(s):
    with s.serve(contexts=["base:allocation"]) as c:
        equal(len(c.request(BLOCK_STATUS, 0, c.size & 0xFFFFFFFF or 4096, REQ_ONE).extents), 1, "extents")


@should("BLOCK_STATUS beyond the end, of nothing, or without a context is EINVAL")
def block_status_wrong(s):
    with s.serve(contexts=["base:allocation"]) as c:
        equal(c.request(BLOCK_STATUS, c.size, 1).error, EINVAL, "error beyond the end")
        equal(c.request(BLOCK_STATUS, 0, 0).error, EINVAL, "error of length 0")
    with s.serve() as c:
        equal(c.request(BLOCK_STATUS, 0, 512).error, EINVAL, "error without a context")
        alive(c)


@must("CACHE of a range succeeds or fails, and is followed by other replies")
def cache(s):
    with s.serve() as c:
        s.offers(c, SEND_CACHE, "CACHE")
        equal(c.request(CACHE, 0, min(c.size, 1 << 20)).error, 0, "error")
        assert c.request(CACHE, c.size, 1).error, "beyond the end"
        alive(c)


@must("a read-only export refuses WRITE, TRIM and WRITE_ZEROES by EPERM, and takes the payload in")
def read_only(s):
    with s.serve() as c:
        if not c.flags & READ_ONLY:
            raise Skip("the export is writable")
        equal(c.request(WRITE, 0, 100000, 0, bytes(100000)).error, EPERM, "error of WRITE")
        equal(c.request(WRITE, 0, 512, 0, bytes(512)).error, EPERM, "error of a small WRITE")
        assert c.request(TRIM, 0, 512).error in (EPERM, EINVAL), "error of TRIM"
        alive(c)
