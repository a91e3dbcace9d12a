# SPDX-License-Identifier: Apache-2.0
"""The client's side of the NBD protocol without a library: it sends exactly the bytes that a test asks for."""
import os
import socket
import ssl
import struct

INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY = 0x4E42444D41474943, 0x49484156454F5054, 0x0003E889045565A9
REQUEST, SIMPLE, STRUCTURED = 0x25609513, 0x67446698, 0x668E33EF
OPT = dict(EXPORT_NAME=1, ABORT=2, LIST=3, STARTTLS=5, INFO=6, GO=7, STRUCTURED_REPLY=8, LIST_META_CONTEXT=9, SET_META_CONTEXT=10)
ACK, SERVER, INFO, META_CONTEXT = 1, 2, 3, 4
ERROR = 1 << 31
ERR_UNSUP, ERR_POLICY, ERR_INVALID, ERR_TLS_REQD, ERR_UNKNOWN, ERR_TOO_BIG = (ERROR + n for n in (1, 2, 3, 5, 6, 9))
INFO_EXPORT, INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE = 0, 1, 2, 3
HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA, ROTATIONAL, SEND_TRIM, SEND_WRITE_ZEROES, SEND_DF, MULTI_CONN = (1 << n for n in range(9))
SEND_CACHE, SEND_FAST_ZERO = 1 << 10, 1 << 11
READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE, DF, REQ_ONE, FAST_ZERO = (1 << n for n in range(5))
NONE, OFFSET_DATA, OFFSET_HOLE, STATUS = 0, 1, 2, 5
DONE = 1
EPERM, EIO, EINVAL, ENOSPC, EOVERFLOW, ENOTSUP, ESHUTDOWN = 1, 5, 22, 28, 75, 95, 108
DEADLINE = 60.0 if os.environ.get("SPATE_SANITIZED") else 10.0  # the limit of each wait, in seconds


class Closed(Exception):
    """Raised when the server has closed the connection."""


class Violation(Exception):
    """Raised when the server has broken the protocol."""


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack(">I", len(s)) + s


def go_data(name, *infos):
    return text(name) + struct.pack(">H", len(infos)) + b"".join(struct.pack(">H", i) for i in infos)


def context_data(name, *queries):
    return text(name) + struct.pack(">I", len(queries)) + b"".join(text(q) for q in queries)


class Reply:
    """The answer to one request."""

    def __init__(self, cookie):
        self.cookie, self.error, self.structured = cookie, 0, False
        self.data, self.extents, self.chunks, self.done = {}, None, 0, False


class Connection:
    """One connection to address: ("host", port) or a path."""

    def __init__(self, address, handshake=True, flags=3):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(address)
        if family != socket.AF_UNIX:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.structured = False
        self.cookie = 0x1122334455667700
        self.pending = {}
        if handshake:
            self.read_init()
            self.send(struct.pack(">I", flags))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (ConnectionError, ssl.SSLEOFError):
            raise Closed()

    def receive(self, size):
        parts = bytearray()
        while len(parts) < size:
            try:
                piece = self.socket.recv(min(size - len(parts), 1 << 20))
            except (ConnectionError, ssl.SSLEOFError):
                raise Closed()
            if not piece:
                raise Closed()
            parts += piece
        return bytes(parts)

    def closed(self):
        """Returns whether the server closes the connection now, without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except socket.timeout:
            return False

    # Handshake.
    def read_init(self):
        magic, option_magic, self.handshake_flags = struct.unpack(">QQH", self.receive(18))
        if magic != INIT_MAGIC or option_magic != OPTION_MAGIC:
            raise Violation("the first bytes are not those of the newstyle handshake")

    def send_option(self, option, data=b""):
        self.send(struct.pack(">QII", OPTION_MAGIC, option, len(data)) + data)

    def option_reply(self, option):
        magic, answered, kind, size = struct.unpack(">QIII", self.receive(20))
        if magic != OPTION_REPLY:
            raise Violation("wrong magic number in the reply to an option: %#x" % magic)
        if answered != option:
            raise Violation("reply to option %d, not %d" % (answered, option))
        if size > 1 << 20:
            raise Violation("the reply to an option has %d bytes" % size)
        return kind, self.receive(size)

    def option(self, option, data=b""):
        """Sends an option. Returns all replies up to the final one."""
        self.send_option(option, data)
        replies = []
        while not replies or (replies[-1][0] != ACK and not replies[-1][0] & ERROR):
            replies.append(self.option_reply(option))
        return replies

    def structured_reply(self):
        final = self.option(OPT["STRUCTURED_REPLY"])[-1][0]
        self.structured = final == ACK
        return self.structured

    def take_infos(self, replies):
        for kind, data in replies:
            if kind == INFO and struct.unpack(">H", data[:2])[0] == INFO_EXPORT:
                self.size, self.flags = struct.unpack(">QH", data[2:])

    def go(self, name):
        replies = self.option(OPT["GO"], go_data(name))
        if replies[-1][0] != ACK:
            raise Violation("GO was refused: %#x %r" % replies[-1])
        self.take_infos(replies)
        return self

    # Transmission.
    def send_request(self, command, offset=0, length=0, flags=0, data=b"", cookie=None):
        if cookie is None:
            self.cookie += 1
            cookie = self.cookie
        self.pending[cookie] = Reply(cookie)
        self.send(struct.pack(">IHHQQI", REQUEST, flags, command, cookie, offset, length) + data)
        self.pending[cookie].command, self.pending[cookie].offset, self.pending[cookie].length = command, offset, length
        return cookie

    def next_reply(self):
        """Reads one reply or one chunk of a reply. Returns the Reply when it is complete, else None."""
        magic = struct.unpack(">I", self.receive(4))[0]
        if magic == SIMPLE:
            error, cookie = struct.unpack(">IQ", self.receive(12))
            reply = self.known(cookie)
            reply.error = error
            if reply.command == READ and self.structured:
                raise Violation("a simple reply to READ though structured replies were negotiated")
            if reply.command == READ and not error:
                reply.data[reply.offset] = self.receive(reply.length)
            reply.done = True
        elif magic == STRUCTURED:
            if not self.structured:
                raise Violation("a structured reply that was not negotiated")
            reply = self.chunk()
        else:
            raise Violation("wrong magic number in a reply: %#x" % magic)
        if reply.done:
            del self.pending[reply.cookie]
            return reply
        return None

    def known(self, cookie):
        if cookie not in self.pending:
            raise Violation("a reply to what was not asked: cookie %#x" % cookie)
        return self.pending[cookie]

    def chunk(self):
        flags, kind, cookie, size = struct.unpack(">HHQI", self.receive(16))
        reply = self.known(cookie)
        reply.structured = True
        reply.chunks += 1
        if flags & ~DONE:
            raise Violation("unknown flags in a chunk: %#x" % flags)
        if size > (32 << 20) + 64:
            raise Violation("a chunk of %d bytes" % size)
        payload = self.receive(size)
        if kind == NONE:
            if size or not flags & DONE:
                raise Violation("a chunk NONE with a payload, or without DONE")
        elif kind in (OFFSET_DATA, OFFSET_HOLE):
            offset = struct.unpack(">Q", payload[:8])[0]
            data = payload[8:] if kind == OFFSET_DATA else bytes(struct.unpack(">I", payload[8:])[0])
            if not data or reply.command != READ or offset < reply.offset or offset + len(data) > reply.offset + reply.length:
                raise Violation("data outside of what was asked for")
            if any(offset < at + len(had) and at < offset + len(data) for at, had in reply.data.items()):
                raise Violation("chunks that overlap")
            reply.data[offset] = data
        elif kind == STATUS:
            if reply.command != BLOCK_STATUS or size < 12 or (size - 4) % 8 or reply.extents is not None:
                raise Violation("a malformed block status chunk")
            reply.context = struct.unpack(">I", payload[:4])[0]
            reply.extents = [struct.unpack(">II", payload[at:at + 8]) for at in range(4, size, 8)]
        elif kind & 0x8000:
            reply.error, length = struct.unpack(">IH", payload[:6])
            if not reply.error or length > size - 6:
                raise Violation("a malformed error chunk")
        else:
            raise Violation("unknown chunk type %d" % kind)
        reply.done = bool(flags & DONE)
        return reply

    def reply(self, cookie=None):
        """Returns the next complete reply, which must have the given cookie if there is one."""
        while True:
            done = self.next_reply()
            if done is not None:
                if cookie is not None and done.cookie != cookie:
                    raise Violation("the reply to another request")
                return done

    def request(self, command, offset=0, length=0, flags=0, data=b""):
        return self.reply(self.send_request(command, offset, length, flags, data))

    def read(self, offset, length, flags=0):
        reply = self.request(READ, offset, length, flags)
        if reply.error:
            raise Violation("READ failed: %d" % reply.error)
        data = b"".join(reply.data[at] for at in sorted(reply.data))
        if len(data) != length:
            raise Violation("READ gave %d bytes of %d" % (len(data), length))
        return data

    def write(self, offset, data, flags=0):
        reply = self.request(WRITE, offset, len(data), flags, data)
        if reply.error:
            raise Violation("WRITE failed: %d" % reply.error)
