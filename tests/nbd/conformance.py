#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds an NBD server against the MUST and SHOULD of the protocol (doc/proto.md of the nbd project).

  conformance.py [--write] [--list] HOST:PORT[/EXPORT] | unix:PATH[/EXPORT after a second colon]

  --write   the export may be overwritten: the checks of WRITE, TRIM and WRITE_ZEROES are run, too
  --list    only print what is checked

Each check is a connection of its own. Exit code 1 when a MUST is broken; a SHOULD that is not followed is only printed,
but for --strict. A server that does not offer something (structured replies, FUA, ...) is not asked for it.
"""
import argparse
import os
import random
import struct
import sys

from nbd_wire import *  # noqa: F403

CHECKS = []


class Skip(Exception):
    """The server does not offer what this check is about."""


def check(level, what, write=False):
    """Declares a check: it raises Violation, Closed or AssertionError when the server breaks it."""
    def declare(function):
        CHECKS.append((level, what, write, function))
        return function
    return declare


must, should = (lambda what, **more: check("MUST", what, **more)), (lambda what, **more: check("SHOULD", what, **more))


class Server:
    def __init__(self, address, export):
        self.address, self.export = address, export

    def connect(self, **more):
        return Connection(self.address, **more)

    def serve(self, structured=True, contexts=()):
        """A connection in the transmission phase."""
        c = self.connect()
        if structured and not c.structured_reply():
            raise Skip("no structured replies")
        if contexts:
            replies = c.option(OPT["SET_META_CONTEXT"], context_data(self.export, *contexts))
            if replies[0][0] != META_CONTEXT:
                raise Skip("no metadata contexts")
            c.context = struct.unpack(">I", replies[0][1][:4])[0]
        return c.go(self.export)

    def offers(self, c, flag, what):
        if not c.flags & flag:
            raise Skip("does not offer " + what)


def equal(got, wanted, what):
    if got != wanted:
        raise Violation("%s: %r, not %r" % (what, got, wanted))


def every_name(s):
    """Some servers serve one export under whatever name it is asked for."""
    with s.connect() as c:
        if c.option(OPT["INFO"], go_data("no such export, %d" % os.getpid()))[-1][0] == ACK:
            raise Skip("every name is an export")


def alive(c):
    """The connection still serves."""
    c.read(0, 1)


# ---- Greeting and client flags ----------------------------------------------------------------------------------------------

@must("sends NBDMAGIC, IHAVEOPT and the flag FIXED_NEWSTYLE, and no unknown flags")
def greeting(s):
    with s.connect(greet=False) as c:
        c.greeting()
        assert c.handshake_flags & 1, "not fixed newstyle"
        equal(c.handshake_flags & ~3, 0, "unknown handshake flags")


@must("drops a client that sets an unknown client flag")
def unknown_client_flag(s):
    with s.connect(greet=False) as c:
        c.greeting()
        c.send(struct.pack(">I", 3 | 1 << 9))
        assert c.closed(), "it was kept"


@must("drops or errors a client whose option has a wrong magic number")
def wrong_option_magic(s):
    with s.connect() as c:
        c.send(struct.pack(">QII", 0x1234567812345678, OPT["LIST"], 0))
        assert c.closed(), "it was kept"


@must("EXPORT_NAME: size, flags and 124 zeroes, or none of them if NO_ZEROES was agreed on")
def export_name(s):
    for flags in (1, 3):
        with s.connect(flags=flags) as c:
            c.send_option(OPT["EXPORT_NAME"], s.export.encode())
            c.size, c.flags = struct.unpack(">QH", c.receive(10))
            if flags == 1:
                equal(c.receive(124), bytes(124), "the reserved bytes")
            assert c.flags & HAS_FLAGS and not c.flags & SEND_DF, "transmission flags %#x" % c.flags
            alive(c)


@must("EXPORT_NAME: closes the connection for an export that does not exist")
def export_name_unknown(s):
    with s.connect() as c:
        every_name(s)
        c.send_option(OPT["EXPORT_NAME"], b"there is no such export, or is there")
        assert c.closed(), "it was kept"


# ---- Options ----------------------------------------------------------------------------------------------------------------

@must("answers an unknown option by ERR_UNSUP and goes on")
def unknown_option(s):
    with s.connect() as c:
        for option, data in ((0x7ABCDEF, b""), (0, b"xyz"), (0xFFFFFFFF, bytes(1000))):
            equal(c.option(option, data)[-1][0], ERR_UNSUP, "reply to option %#x" % option)
        c.go(s.export)
        alive(c)


@must("ABORT: acknowledges and closes")
def abort(s):
    with s.connect() as c:
        equal(c.option(OPT["ABORT"])[-1][0], ACK, "reply")
        assert c.closed(), "it was kept"


@should("lives on when a client sends ABORT and is gone at once")
def abort_and_gone(s):
    with s.connect() as c:
        c.send_option(OPT["ABORT"])
    with s.serve(structured=False) as c:
        alive(c)


@must("LIST: names with lengths that fit, then ACK")
def list_exports(s):
    with s.connect() as c:
        replies = c.option(OPT["LIST"])
        if replies[-1][0] in (ERR_POLICY, ERR_UNSUP):
            raise Skip("no list")
        equal(replies[-1][0], ACK, "final reply")
        for kind, data in replies[:-1]:
            equal(kind, SERVER, "reply type")
            size = struct.unpack(">I", data[:4])[0]
            assert size <= len(data) - 4 and size <= 4096, "length of the name %d of %d" % (size, len(data))
            data[4:4 + size].decode("utf-8")


@should("LIST: answers ERR_INVALID when there is data with it")
def list_with_data(s):
    with s.connect() as c:
        assert c.option(OPT["LIST"], b"data")[-1][0] in (ERR_INVALID, ERR_POLICY), "not refused"
        c.go(s.export)


@must("INFO and GO: tell INFO_EXPORT before ACK, and block sizes that make sense")
def info_and_go(s):
    for option in ("INFO", "GO"):
        with s.connect() as c:
            replies = c.option(OPT[option], go_data(s.export, INFO_NAME, INFO_BLOCK_SIZE, INFO_DESCRIPTION, 0x7777))
            equal(replies[-1][0], ACK, "final reply")
            infos = {}
            for kind, data in replies[:-1]:
                equal(kind, INFO, "reply type")
                infos[struct.unpack(">H", data[:2])[0]] = data[2:]
            assert INFO_EXPORT in infos and len(infos[INFO_EXPORT]) == 10, "no INFO_EXPORT"
            if INFO_BLOCK_SIZE in infos:
                least, best, most = struct.unpack(">III", infos[INFO_BLOCK_SIZE])
                assert least & (least - 1) == 0 and 1 <= least <= 65536, "minimum block size %d" % least
                assert best & (best - 1) == 0 and best >= max(least, 512), "preferred block size %d" % best
                assert most == 0xFFFFFFFF or (most >= best and most % least == 0), "maximum block size %d" % most
            if option == "INFO":
                c.go(s.export)
            alive(c)


@must("INFO and GO: an export that does not exist is ERR_UNKNOWN, and negotiation goes on")
def unknown_export(s):
    every_name(s)
    with s.connect() as c:
        for option in ("INFO", "GO"):
            equal(c.option(OPT[option], go_data("there is no such export, or is there"))[-1][0], ERR_UNKNOWN, "reply to " + option)
        c.go(s.export)


@should("INFO and GO: malformed data is ERR_INVALID, and negotiation goes on")
def malformed_go(s):
    good = go_data(s.export, INFO_NAME)
    for data in (b"", b"\0\0", struct.pack(">I", 0xFFFFFFFF) + b"abc", good[:-1], good + b"x", text(s.export) + b"\xff\xff"):
        with s.connect() as c:
            equal(c.option(OPT["GO"], data)[-1][0], ERR_INVALID, "reply to %r" % data)
            c.go(s.export)


@must("survives an option of 4 GiB: refuses, skips or closes; serves others meanwhile")
def endless_option(s):
    with s.connect() as c:
        c.send(struct.pack(">QII", OPTION_MAGIC, OPT["GO"], 0xFFFFFFFF))
        try:
            for _ in range(64):
                c.send(bytes(65536))
        except Closed:
            pass
        with s.serve(structured=False) as other:
            alive(other)


@must("STRUCTURED_REPLY: READ is answered by chunks from then on; without it by simple replies")
def structured_negotiation(s):
    with s.serve(structured=True) as c:
        assert c.request(READ, 0, 512).structured, "a simple reply"
        assert c.flags & SEND_DF, "SEND_DF must be offered with structured replies"
    with s.serve(structured=False) as c:
        assert not c.request(READ, 0, 512).structured, "a structured reply"
        assert not c.flags & SEND_DF, "SEND_DF without structured replies"


@should("STRUCTURED_REPLY with data is ERR_INVALID")
def structured_with_data(s):
    with s.connect() as c:
        assert c.option(OPT["STRUCTURED_REPLY"], b"x")[-1][0] in (ERR_INVALID, ERR_UNSUP), "not refused"


@should("metadata contexts before structured replies are ERR_INVALID")
def contexts_too_early(s):
    with s.connect() as c:
        assert c.option(OPT["SET_META_CONTEXT"], context_data(s.export, "base:allocation"))[-1][0] & ERROR, "not refused"
        c.go(s.export)


@must("LIST_META_CONTEXT: all for no query; nothing but ACK for a query that finds nothing")
def list_contexts(s):
    with s.connect() as c:
        if not c.structured_reply():
            raise Skip("no structured replies")
        replies = c.option(OPT["LIST_META_CONTEXT"], context_data(s.export))
        if replies[-1][0] == ERR_UNSUP:
            raise Skip("no metadata contexts")
        equal(replies[-1][0], ACK, "final reply")
        for kind, data in replies[:-1]:
            equal(kind, META_CONTEXT, "reply type")
            data[4:].decode("utf-8")
        equal([r[0] for r in c.option(OPT["LIST_META_CONTEXT"], context_data(s.export, "x-nobody:has this"))], [ACK], "replies")


@must("SET_META_CONTEXT: one reply a context, ids differ, a repeated query selects once, an unknown export is refused")
def set_contexts(s):
    with s.connect() as c:
        if not c.structured_reply():
            raise Skip("no structured replies")
        replies = c.option(OPT["SET_META_CONTEXT"], context_data(s.export, "base:allocation", "x-nobody:has this", "base:allocation"))
        if replies[-1][0] == ERR_UNSUP:
            raise Skip("no metadata contexts")
        equal(replies[-1][0], ACK, "final reply")
        ids = [data[:4] for kind, data in replies[:-1]]
        equal(len(ids), len(set(ids)), "number of different ids")
        names = [data[4:] for kind, data in replies[:-1]]
        equal(len(names), len(set(names)), "number of different names")
        assert c.option(OPT["SET_META_CONTEXT"], context_data("no such export", "base:allocation"))[-1][0] & ERROR, "not refused"


@should("metadata options with malformed data are ERR_INVALID, and negotiation goes on")
def malformed_contexts(s):
    good = context_data(s.export, "base:allocation")
    with s.connect() as c:
        if not c.structured_reply():
            raise Skip("no structured replies")
        for data in (b"", good[:-1], good + b"x", text(s.export) + struct.pack(">I", 0xFFFFFFFF)):
            kind = c.option(OPT["SET_META_CONTEXT"], data)[-1][0]
            if kind == ERR_UNSUP:
                raise Skip("no metadata contexts")
            assert kind in (ERR_INVALID, ERR_TOO_BIG), "reply to %r: %#x" % (data, kind)
        c.go(s.export)


@must("BLOCK_STATUS is refused when the last SET_META_CONTEXT selected nothing")
def contexts_replaced(s):
    with s.connect() as c:
        if not c.structured_reply() or c.option(OPT["SET_META_CONTEXT"], context_data(s.export, "base:allocation"))[0][0] != META_CONTEXT:
            raise Skip("no metadata contexts")
        c.option(OPT["SET_META_CONTEXT"], context_data(s.export))
        c.go(s.export)
        equal(c.request(BLOCK_STATUS, 0, 4096).error, EINVAL, "error")


@should("STARTTLS with data is ERR_INVALID; without it an answer that the protocol knows")
def starttls(s):
    with s.connect() as c:
        kind = c.option(OPT["STARTTLS"], b"data")[-1][0]
        assert kind in (ERR_INVALID, ERR_UNSUP, ERR_POLICY), "%#x" % kind
        c.go(s.export)


@must("takes options and the first requests sent in one piece")
def one_piece(s):
    with s.connect() as c:
        data = go_data(s.export)
        c.send(struct.pack(">QII", OPTION_MAGIC, OPT["GO"], len(data)) + data + struct.pack(">IHHQQI", REQUEST, 0, READ, 7, 0, 512))
        while c.option_reply(OPT["GO"])[0] != ACK:
            pass
        magic, error, cookie = struct.unpack(">IIQ", c.receive(16))
        equal((magic, error, cookie), (SIMPLE, 0, 7), "reply")
        c.receive(512)


@must("takes a handshake that comes byte by byte")
def byte_by_byte(s):
    with s.connect(greet=False) as c:
        c.greeting()
        data = go_data(s.export)
        for byte in struct.pack(">I", 3) + struct.pack(">QII", OPTION_MAGIC, OPT["GO"], len(data)) + data:
            c.send(bytes([byte]))
        while c.option_reply(OPT["GO"])[0] != ACK:
            pass
        alive(c)


# ---- Transmission -----------------------------------------------------------------------------------------------------------

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


@must("drops a client whose request has a wrong magic number")
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
        # The last one may reach further, as later texts of the protocol allow.
        assert all(n > 0 for n, _ in reply.extents) and sum(n for n, _ in reply.extents[:-1]) < length, "extents %r" % reply.extents
        assert sum(n for n, _ in reply.extents) <= c.size, "beyond the export: %r" % reply.extents
        assert all(flags & ~3 == 0 for _, flags in reply.extents), "unknown status flags"
        offset = 0
        for size, flags in reply.extents[:16]:  # what is told to be zero is
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


# ---- Writing ----------------------------------------------------------------------------------------------------------------

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
        equal(c.request(WRITE_ZEROES, c.size, 1).error, ENOSPC, "error beyond the end")


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
        for _ in range(40):  # and it gets all of them, late
            equal(sum(len(d) for d in slow.reply().data.values()), length, "bytes")


def parse_address(where):
    if where.startswith("unix:"):
        path, _, export = where[5:].partition(":")
        return path, export.lstrip("/")
    address, _, export = where.partition("/")
    host, _, port = address.rpartition(":")
    return (host or "127.0.0.1", int(port)), export


def run_one(server, function):
    try:
        function(server)
        return "passed", ""
    except Skip as e:
        return "skipped", str(e)
    except (Violation, AssertionError) as e:
        return "FAILED", str(e)
    except Closed:
        return "FAILED", "the server closed the connection"
    except (OSError, struct.error) as e:
        return "FAILED", "%s: %s" % (type(e).__name__, e)


def run(address, export, write=False, strict=False, out=sys.stdout):
    """Runs all checks; whether the server passed."""
    counts = {"passed": 0, "skipped": 0, "FAILED": 0}
    broken = 0
    for level, what, writes, function in CHECKS:
        if writes and not write:
            continue
        outcome, why = run_one(Server(address, export), function)
        counts[outcome] += 1
        broken += outcome == "FAILED" and (strict or level == "MUST")
        print("%-7s %-6s %s: %s%s" % (outcome, level, function.__name__, what, why and " [" + why + "]"), file=out)
    print("%(passed)d passed, %(skipped)d skipped, %(FAILED)d failed" % counts, file=out)
    return broken == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--strict", action="store_true", help="a SHOULD that is not followed is a failure, too")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("server", nargs="?")
    arguments = parser.parse_args()
    if arguments.list:
        for level, what, writes, function in CHECKS:
            print("%-6s %s%s: %s" % (level, function.__name__, " (writes)" if writes else "", what))
        return 0
    if arguments.server is None:
        parser.error("which server?")
    address, export = parse_address(arguments.server)
    return 0 if run(address, export, arguments.write, arguments.strict) else 1


if __name__ == "__main__":
    sys.exit(main())
