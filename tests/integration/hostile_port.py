#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unauthenticated peers at a server's port: each is refused with one line in the log, however often it comes, and the server goes
on."""
import os
import re
import resource
import socket
import struct
import time

import wire
from cluster import Cluster, check, wait_until

META, IO = 1, 2
HANDLE, CLIENT = 0x77, 0x1234
TARGET = IO * 256
TIMES = 12


class Scene:
    """A separate server for each kind of offence, so that its log is empty at the start."""

    def __init__(self, fs, server=IO, times=TIMES):
        self.fs = fs
        self.server = server
        self.times = times
        self.port = fs.port + server - 1
        self.fs_id = int(re.search(r'^id = "([0-9a-f]+)"', open(fs.dir + "/spate.toml").read(), re.M).group(1), 16)
        self.client_key = wire.read_key(fs.dir + "/keys/client.key")
        self.server_key = wire.read_key(fs.dir + "/keys/server.key")

    def peer(self):
        return wire.Connection(self.port, self.fs_id)

    def after_handshake(self):
        peer = self.peer()
        check(peer.hello_tcp() == wire.OK, "no welcome")
        return peer

    def member(self):
        """Connects a client with a session, as the meta server would have created it."""
        peer = self.after_handshake()
        check(peer.hello()[0] == wire.OK, "no hello")
        status = peer.authenticate(self.client_key, CLIENT, wire.ticket(self.server_key, self.fs_id, CLIENT))
        check(status[0] == wire.OK, "not let in: %s" % (status,))
        peer.epoch = 1
        return peer

    def capability(self, **change):
        fields = dict(dict(handle=HANDLE, client=CLIENT), **change)
        key = fields.pop("key", self.server_key)
        return wire.capability(key, fields.pop("fs", self.fs_id), **fields)

    def memory(self):
        with open("/proc/%d/status" % self.fs.pids()[self.server]) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) // 1024

    def serves(self):
        if self.server == META:
            self.fs.spate("put", "spate:/served", input=b"served")
            self.fs.spate("rm", "spate:/served")
            return
        with self.member() as peer:
            data = os.urandom(100)
            status, context, _ = peer.ask(wire.WRITE, wire.write_request(HANDLE, TARGET, data), capability=self.capability())
            check(status == wire.OK, "write refused: %d %s" % (status, context))
            status, context, body = peer.ask(wire.READ, wire.read_request(HANDLE, TARGET, 100), capability=self.capability())
            check(status == wire.OK and body[-100:] == data, "read is wrong: %d %s" % (status, context))

    def refused(self, name, offend, *words, lines=1):
        """Checks that `offend(self)` is refused each time, with one line in the log that has `words`."""
        self.fs.kill(self.server)
        self.fs.up()
        begin = len(self.fs.log(self.server))
        pid, memory = self.fs.pids()[self.server], self.memory()
        for _ in range(self.times):
            offend(self)
        self.serves()
        new = self.fs.log(self.server)[begin:].splitlines()
        told = [line for line in new if " warn " in line or " error " in line]
        check(len(told) == lines, "%s: %d lines in the log:\n%s" % (name, len(told), "\n".join(told)))
        for word in words:
            check(word in told[0], "%s: %r is not in the log line: %s" % (name, word, told[0]))
        check(self.fs.pids()[self.server] == pid, name + ": the server has been replaced")
        check(self.memory() < memory + 32, "%s: memory grew from %d to %d MiB" % (name, memory, self.memory()))


def ends(*data, handshake=False):
    """Sends data to the port and expects the server to end the connection."""
    def offend(scene):
        with scene.after_handshake() if handshake else scene.peer() as peer:
            try:
                for piece in data:
                    peer.send(piece)
            except wire.Closed:
                return
            check(peer.closed_within(5), "the connection is kept")
    return offend


def says(wanted, word, ask):
    """Checks that the reply to `ask(peer)` has this status and names the reason."""
    def offend(scene):
        with scene.after_handshake() as peer:
            status, context = ask(scene, peer)[:2]
            check(status == wanted and word in context, "status %d, %r" % (status, context))
    return offend


def io_request(op, **change):
    def offend(scene):
        with scene.member() as peer:
            body = wire.write_request(HANDLE, TARGET, b"x") if op == wire.WRITE else wire.read_request(HANDLE, TARGET, 1)
            wanted = change.get("wanted", wire.CAPABILITY_INVALID)
            given = None if "without" in change else scene.capability(**{k: v for k, v in change.items() if k != "wanted"})
            status, context, _ = peer.ask(op, body, capability=given)
            check(status == wanted and "capability" in context, "%s: status %d, %r" % (change, status, context))
    return offend


def strangers(scene):
    # Offences below the level of requests: bmi/tcp.
    scene.refused("another protocol", ends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"x" * 100), "peer dropped", "127.0.0.1")
    scene.refused("garbage", lambda s: ends(os.urandom(4096))(s), "peer dropped")
    scene.refused("garbage after the handshake", lambda s: ends(os.urandom(4096), handshake=True)(s), "peer dropped")
    scene.refused("a newer tcp module", lambda s: newer_module(s), "versions 7 to 9", "upgrade")
    scene.refused("oversized length", ends(wire.frame(wire.UNEXPECTED, 1 << 40), handshake=True), "peer dropped", "protocol error")
    scene.refused("length out of range", ends(wire.frame(wire.EAGER, 1 << 63), handshake=True), "peer dropped")
    scene.refused("more than its window", ends(wire.frame(wire.EAGER, 1 << 30), handshake=True), "peer dropped")
    # Offences in requests.
    scene.refused("no request", ends(wire.frame(wire.UNEXPECTED, 40, 5) + b"\1\0" + b"\xff" * 38, handshake=True), "header")
    scene.refused("another file system", says(wire.WRONG_FILE_SYSTEM, "another file system", lambda s, p: p.hello(fs=s.fs_id ^ 1)), "another file system", "127.0.0.1")
    scene.refused("a newer protocol", says(wire.VERSION_MISMATCH, "protocol", lambda s, p: p.ask(wire.PING, wire.text(b""), version=9)), "protocol")
    scene.refused("no protocol in common", says(wire.VERSION_MISMATCH, "upgrade", lambda s, p: p.hello(oldest=7, newest=9)), "protocol")
    scene.refused("a wrong key", says(wire.UNAUTHENTICATED, "wrong client key", wrong_key), "wrong client key", "a test")
    scene.refused("a forged ticket", says(wire.UNAUTHENTICATED, "ticket", forged_ticket), "ticket")
    scene.refused("without a session", says(wire.UNAUTHENTICATED, "", lambda s, p: p.ask(wire.READ, wire.read_request(HANDLE, TARGET, 1))), lines=0)
    scene.refused("a body that is none", says(wire.PROTOCOL, "hello", lambda s, p: p.ask(wire.HELLO, b"\1\2\3")), "hello")
    scene.refused("no such operation", says(wire.NOT_SUPPORTED, "999", lambda s, p: p.ask(999)), "999")
    # Offences with capabilities.
    scene.refused("a forged capability", io_request(wire.WRITE, key=b"k" * 32), "not genuine")
    scene.refused("of another file system", io_request(wire.READ, fs=1), "not genuine")
    scene.refused("expired", io_request(wire.WRITE, expiry=wire.now_ns() - 10**9, wanted=wire.CAPABILITY_EXPIRED), "expired")
    scene.refused("for ever", io_request(wire.WRITE, expiry=wire.now_ns() + 10**18), "outlive")
    scene.refused("another file's", io_request(wire.READ, handle=HANDLE + 1), "another file")
    scene.refused("another client's", io_request(wire.READ, client=CLIENT + 1), "another client")
    scene.refused("to read only", io_request(wire.WRITE, rights=1), "right")
    scene.refused("none", io_request(wire.WRITE, without=True), "no capability")


def strangers_at_the_meta_server(scene):
    scene.refused("another protocol", ends(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"x" * 100), "peer dropped", "127.0.0.1")
    scene.refused("garbage after the handshake", lambda s: ends(os.urandom(4096), handshake=True)(s), "peer dropped")
    scene.refused("oversized length", ends(wire.frame(wire.UNEXPECTED, 1 << 40), handshake=True), "peer dropped", "protocol error")
    scene.refused("no request", ends(wire.frame(wire.UNEXPECTED, 40, 5) + b"\1\0" + b"\xff" * 38, handshake=True), "header")
    scene.refused("another file system", says(wire.WRONG_FILE_SYSTEM, "another file system", lambda s, p: p.hello(fs=s.fs_id ^ 1)), "another file system", "127.0.0.1")
    scene.refused("a wrong key", says(wire.UNAUTHENTICATED, "wrong client key", wrong_key), "wrong client key", "a test")
    scene.refused("a body that is none", says(wire.PROTOCOL, "hello", lambda s, p: p.ask(wire.HELLO, b"\1\2\3")), "hello")
    scene.refused("an io server's operation", says(wire.NOT_SUPPORTED, "", lambda s, p: p.ask(wire.READ, wire.read_request(HANDLE, TARGET, 1))), "operation")
    scene.refused("no such operation", says(wire.NOT_SUPPORTED, "999", lambda s, p: p.ask(999)), "999")


def newer_module(scene):
    with scene.peer() as peer:
        check(peer.hello_tcp(lowest=7, highest=9) == wire.VERSION_MISMATCH, "not told of the versions")
        check(peer.closed_within(5), "the connection is kept")


def wrong_key(scene, peer):
    peer.hello()
    return peer.authenticate(b"w" * 32, CLIENT, wire.ticket(scene.server_key, scene.fs_id, CLIENT))


def forged_ticket(scene, peer):
    peer.hello()
    return peer.authenticate(scene.client_key, CLIENT, wire.ticket(b"w" * 32, scene.fs_id, CLIENT))


def slow_ones(scene):
    """Peers that begin and never finish: half a handshake, half a frame, half a request. They take no memory and keep
    nobody out."""
    memory = scene.memory()
    hello = wire.tcp_hello()
    held = []
    for i in range(300):
        peer = scene.peer()
        peer.send(hello[:1 + i % 60])
        held.append(peer)
    for i in range(100):
        peer = scene.after_handshake()
        peer.send(wire.frame(wire.UNEXPECTED, 200000) + b"\0" * (i * 100))
        held.append(peer)
    scene.serves()
    check(scene.memory() < memory + 64, "memory grew from %d to %d MiB" % (memory, scene.memory()))
    for peer in held[:300:50]:
        check(peer.closed_within(10), "half a handshake is kept for ever")
    for peer in held:
        peer.socket.close()


def crowd(scene):
    """Thousands of peers connect and send only the handshake, or nothing. A client still gets in."""
    memory = scene.memory()
    held = []
    for i in range(3000):
        try:
            peer = scene.peer()
        except OSError:
            break
        held.append(peer)
        if i % 2 == 0:
            try:
                peer.send(wire.tcp_hello())
            except wire.Closed:
                pass
    check(len(held) >= 1000, "only %d connections" % len(held))
    scene.serves()
    check(scene.memory() < memory + 64, "memory grew from %d to %d MiB" % (memory, scene.memory()))
    for peer in held:
        peer.socket.close()
    scene.serves()


resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
# The raw peers here speak version 1 of the protocol.
with Cluster(io=1, env={"SPATE_AUTH_ALLOW_V1": "yes"}) as fs:
    fs.env["SPATE_NETWORK_CONNECT_TIMEOUT"] = "500 ms"
    fs.up()
    fs.spate("put", "spate:/first", input=b"first")  # waits until the new io server knows which sessions have ended
    scene = Scene(fs)
    scene.serves()
    strangers(scene)
    slow_ones(scene)
    crowd(scene)
    strangers_at_the_meta_server(Scene(fs, META, 4))
    fs.spate("put", "spate:/after", input=b"still there")
    check(fs.spate("cat", "spate:/after") == b"still there", "not served")
