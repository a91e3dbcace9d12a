# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the protocol in docs/wire-tcp.md and docs/wire.md, for tests that need an ill-behaved
client."""
import hashlib
import hmac
import os
import socket
import struct
import time

HELLO, AUTHENTICATE, PING = 1, 2, 3
READ, WRITE = 60, 61
CLIENT, SERVER = 1, 2
OK, NOT_SUPPORTED, WRONG_FILE_SYSTEM, PROTOCOL, VERSION_MISMATCH = 0, 8, 65, 83, 84
UNAUTHENTICATED, CAPABILITY_INVALID, CAPABILITY_EXPIRED = 100, 103, 104
UNEXPECTED, EAGER, READY, ANNOUNCE, CREDIT = 2, 1, 3, 4, 9


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()[:16]


def text(data):
    return struct.pack("<I", len(data)) + data


def read_key(path):
    with open(path) as f:
        return bytes.fromhex(f.read().strip())


def tcp_hello(lowest=1, highest=1, magic=b"SPATEtcp", channel=0):
    limits = struct.pack("<QQII", 1 << 20, 1 << 18, 1024, 0)
    return magic + struct.pack("<HHBBH", lowest, highest, channel, 1, 0) + os.urandom(16) + struct.pack("<Q", 0) + limits


def frame(kind, length, tag=0, magic=0xB5):
    return struct.pack("<BBBBIQQQ", magic, kind, 0, 0, 0, tag, length, 0)


class Closed(Exception):
    """Raised when the server has ended the connection."""


class Connection:
    """One connection to a server. It can send anything."""

    def __init__(self, port, fs=0, seconds=10, source=None):
        """`source`: the address that it comes from."""
        self.fs = fs
        self.client = 0
        self.epoch = 0
        self.tag = 1
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=seconds, source_address=source and (source, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as e:
            raise Closed() from e

    def receive(self, size):
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError as e:
                raise Closed() from e
            if not more:
                raise Closed()
            data += more
        return data

    def closed_within(self, seconds):
        """Returns whether the server ends the connection within this time, whatever it sends first."""
        self.socket.settimeout(seconds)
        try:
            while True:
                self.receive(1)
        except Closed:
            return True
        except socket.timeout:
            return False

    def hello_tcp(self, **more):
        """Returns the status in the server's Welcome."""
        self.send(tcp_hello(**more))
        welcome = self.receive(48)
        assert welcome[:8] == b"spateTCP", welcome
        return struct.unpack_from("<H", welcome, 8)[0]

    def send_request(self, payload):
        self.tag += 1 << 13
        self.send(frame(UNEXPECTED, len(payload), self.tag) + payload)

    def receive_reply(self):
        """Returns status, context and body of the next reply."""
        while True:
            _, kind, _, _, _, _, length, _ = struct.unpack("<BBBBIQQQ", self.receive(32))
            if kind not in (EAGER, READY):
                continue
            data = self.receive(length)
            _, status, size = struct.unpack_from("<HHI", data)
            return status, data[8:8 + size].decode(), data[8 + size + 16:]

    def header(self, op, version=1, fs=None, capability=None, deadline_ms=5000):
        head = struct.pack("<HHQQIQQBIIHQ", version, op, self.fs if fs is None else fs, self.client, self.epoch, 0, 1, 1, deadline_ms, 65536, 0xFFFF, 0)
        return head + (b"\0" if capability is None else b"\1" + capability)

    def ask(self, op, body=b"", **more):
        self.send_request(self.header(op, **more) + body)
        return self.receive_reply()

    def hello(self, fs=None, oldest=1, newest=1):
        """Returns status and context, and keeps the server's nonce."""
        self.nonce = os.urandom(16)
        fs = self.fs if fs is None else fs
        status, context, body = self.ask(HELLO, struct.pack("<HHQQ", oldest, newest, 0, fs) + self.nonce, fs=fs)
        self.server_nonce = body[-16:]
        return status, context

    def authenticate(self, key, client=0, ticket=None, kind=CLIENT):
        body = struct.pack("<BQQII", kind, client, 1, 0, 0) + struct.pack("<I", 0) + text(b"a test")
        body += (b"\0" if ticket is None else b"\1" + ticket) + self.server_nonce
        proof = mac(key, b"spate client proof" + self.nonce + body + bytes(16))
        status, context, _ = self.ask(AUTHENTICATE, body + proof)
        if status == OK:
            self.client = client
        return status, context


def now_ns():
    return time.time_ns()


def ticket(server_key, fs, client, epoch=1, expiry=None):
    fields = struct.pack("<QIIIq", client, epoch, 0, 0, now_ns() + 60 * 10**9 if expiry is None else expiry)
    return fields + mac(server_key, b"\2" + struct.pack("<Q", fs) + fields)


def capability(server_key, fs, handle, client, rights=3, epoch=1, expiry=None):
    fields = struct.pack("<QBIQIIIIq", handle, rights, 1, client, epoch, 0, 0, 0, now_ns() + 60 * 10**9 if expiry is None else expiry)
    return fields + mac(server_key, b"\1" + struct.pack("<Q", fs) + fields)


def slot_set(handle, target):
    return struct.pack("<QBQII", handle, 1, 1 << 20, 1, 1) + struct.pack("<II", 0, target)


def contiguous(offset, size):
    return struct.pack("<BQQ", 1, offset, size)


def write_request(handle, target, data, offset=0):
    return slot_set(handle, target) + contiguous(offset, len(data)) + struct.pack("<IBqBBB", 1 << 20, 0, now_ns(), 0, 0, 1) + text(data)


def read_request(handle, target, size, offset=0):
    return slot_set(handle, target) + contiguous(offset, size) + struct.pack("<IIBB", 1 << 16, 1 << 20, 0, 0)
