# SPDX-License-Identifier: Apache-2.0
"""Checks of the transmission phase, most of which write (--write)."""
import os

from conformance_check import *  # noqa: F403
from nbd_wire import *  # noqa: F403


@must("what was written is read, by this and by other connections, at any offset and size", write=True)
def write_and_read(s):
    for structured in (False, True):
        with s.serve(structured=structured) as c, s.serve(structured=structured) as other:
            for offset, length in ((0, 512), (1, 1), (4095, 2), (12345, 100000), (0, min(c.size, 5 << 20)), (c.size - 77, 77)):
                data = os.urandom(min(length, 4096)) * (length // 4096 + 1)
                c.write(offset, data[:length])
                equal(c.read(offset, length) == data[:length], True, "the bytes are the same")
                if c.flags & MULTI_CONN:
                    equal(other.read(offset, length) == data[:length], True, "the bytes of the other connection")


@should("a write beyond the end is ENOSPC, changes nothing, and its payload is taken in", write=True)
def write_beyond(s):
    with s.serve() as c:
        before = c.read(c.size - 1, 1)
        for offset, length in ((c.size, 1), (c.size - 1, 2), (c.size, 200000), (0xFFFFFFFFFFFFFFFF, 10)):
            equal(c.request(WRITE, offset, length, 0, b"\x55" * length).error, ENOSPC, "error at %#x + %d" % (offset, length))
        if c.flags & SEND_WRITE_ZEROES:
            equal(c.request(WRITE_ZEROES, c.size, 1).error, ENOSPC, "error of WRITE_ZEROES")
        equal(c.read(c.size - 1, 1), before, "the last byte")


@must("a write with unknown flags is refused with its payload taken in", write=True)
def write_flags(s):
    with s.serve() as c:
        for length in (512, 300000):
            equal(c.request(WRITE, 0, length, 1 << 14, bytes(length)).error, EINVAL, "error")
        alive(c)


@must("a write of 4 GiB is refused or ends the connection; others are served", write=True)
def huge_write(s):
    with s.serve() as c:
        try:
            c.send_request(WRITE, 0, 0xFFFFFFFF)
            c.send(bytes(1 << 20))
        except Closed:
            pass
    with s.serve() as c:
        alive(c)


@must("a client that is gone in the middle of a payload writes nothing", write=True)
def half_a_write(s):
    with s.serve() as c:
        c.write(0, b"\x11" * 300000)
        for length, sent in ((4096, 4000), (300000, 299999), (300000, 0)):
            with s.serve() as gone:
                gone.send_request(WRITE, 0, length, 0, b"\x22" * sent)
            equal(c.read(0, 300000).strip(b"\x11"), b"", "other bytes than before")


@must("FLUSH and FUA succeed, and many requests of all kinds at once are answered each", write=True)
def mixed(s):
    with s.serve() as c:
        s.offers(c, SEND_FLUSH, "FLUSH")
        fua = FUA if c.flags & SEND_FUA else 0
        wanted = set()
        for i in range(32):
            wanted.add(c.send_request(WRITE, i * 4096, 4096, fua if i % 8 == 0 else 0, bytes([i]) * 4096))
            wanted.add(c.send_request(READ, (i + 64) * 4096, 4096))
            wanted.add(c.send_request(FLUSH))
        for _ in range(96):
            reply = c.reply()
            equal(reply.error, 0, "error")
            wanted.remove(reply.cookie)
        for i in range(32):
            equal(c.read(i * 4096, 4096), bytes([i]) * 4096, "block %d" % i)


@must("WRITE_ZEROES: the range reads as zeros, its neighbours are left alone, with NO_HOLE and FUA, too", write=True)
def write_zeroes(s):
    with s.serve() as c:
        s.offers(c, SEND_WRITE_ZEROES, "WRITE_ZEROES")
        for flags in (0, NO_HOLE, FUA if c.flags & SEND_FUA else 0):
            for offset, length in ((4096, 8192), (1001, 5003), (100, 1)):
                c.write(0, b"\x33" * 20000)
                equal(c.request(WRITE_ZEROES, offset, length, flags).error, 0, "error")
                equal(c.read(0, 20000), b"\x33" * offset + bytes(length) + b"\x33" * (20000 - offset - length), "bytes")
        assert c.request(WRITE_ZEROES, c.size, 1).error, "not refused beyond the end"


@must("FAST_ZERO: zeros, or ENOTSUP and the data as they were", write=True)
def fast_zero(s):
    with s.serve() as c:
        s.offers(c, SEND_FAST_ZERO, "FAST_ZERO")
        c.write(0, b"\x44" * 65536)
        error = c.request(WRITE_ZEROES, 0, 65536, FAST_ZERO).error
        assert error in (0, ENOTSUP), "error %d" % error
        if error == 0:
            equal(c.read(0, 65536), bytes(65536), "bytes")


@must("TRIM leaves other bytes alone and is refused beyond the end", write=True)
def trim(s):
    with s.serve() as c:
        s.offers(c, SEND_TRIM, "TRIM")
        c.write(0, b"\x66" * 65536)
        equal(c.request(TRIM, 4096, 8192).error, 0, "error")
        data = c.read(0, 65536)
        equal((data[:4096].strip(b"\x66"), data[12288:].strip(b"\x66")), (b"", b""), "bytes around it")
        assert c.request(TRIM, c.size, 1).error in (EINVAL, ENOSPC), "not refused beyond the end"


@must("FLUSH of one connection covers what another one has written (MULTI_CONN)", write=True)
def multi_conn(s):
    with s.serve() as one, s.serve() as other:
        s.offers(one, MULTI_CONN, "MULTI_CONN")
        s.offers(one, SEND_FLUSH, "FLUSH")
        one.write(8192, b"\x77" * 4096)
        equal(other.request(FLUSH).error, 0, "error")
        equal(other.read(8192, 4096), b"\x77" * 4096, "bytes")


@must("a client that does not read its replies stops nobody else", write=False)
def slow_reader(s):
    with s.serve() as slow:
        length = min(slow.size, 1 << 20)
        for _ in range(40):
            slow.send_request(READ, 0, length)
        with s.serve() as c:
            for _ in range(20):
                alive(c)
        for _ in range(40):  # the client receives all replies, late
            equal(sum(len(d) for d in slow.reply().data.values()), length, "bytes")
