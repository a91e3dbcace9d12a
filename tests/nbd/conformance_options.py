# SPDX-License-Identifier: Apache-2.0
"""Checks of the first bytes, the client's flags and the options."""
import struct

from conformance_check import *  # noqa: F403
from nbd_wire import *  # noqa: F403


@must("sends NBDMAGIC, IHAVEOPT and the flag FIXED_NEWSTYLE, and no unknown flags")
def first_bytes(s):
    with s.connect(handshake=False) as c:
        c.read_init()
        assert c.handshake_flags & 1, "not fixed newstyle"
        equal(c.handshake_flags & ~3, 0, "unknown handshake flags")


@must("drops a client that sets an unknown client flag")
def unknown_client_flag(s):
    with s.connect(handshake=False) as c:
        c.read_init()
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
    with s.connect(handshake=False) as c:
        c.read_init()
        data = go_data(s.export)
        for byte in struct.pack(">I", 3) + struct.pack(">QII", OPTION_MAGIC, OPT["GO"], len(data)) + data:
            c.send(bytes([byte]))
        while c.option_reply(OPT["GO"])[0] != ACK:
            pass
        alive(c)
