#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers without a key hold a bounded share of a server's memory, descriptors and time, and a client gets in while they
come. Attacks: unclaimed messages of many connections; answers that nobody takes; a flood of new connections; silence."""
import os
import re
import resource
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
import wire
from cluster import Cluster, check

META = 1
MOST = 256  # bmi/network.h: StrangerLimits
SILENT = 40


class Scene:
    def __init__(self, fs):
        self.fs = fs
        self.pid = fs.pids()[META]
        self.fs_id = int(re.search(r'^id = "([0-9a-f]+)"', open(fs.dir + "/spate.toml").read(), re.M).group(1), 16)

    def peer(self):
        return wire.Peer(self.fs.port, self.fs_id)

    def greeted(self):
        peer = self.peer()
        check(peer.greet_tcp() == wire.OK, "no welcome")
        return peer

    def memory(self):
        with open("/proc/%d/status" % self.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def serves(self):
        self.fs.spate("put", "spate:/served", input=b"served")
        self.fs.spate("rm", "spate:/served")

    def bounded(self, what, memory, descriptors):
        grown, more = self.memory() - memory, self.descriptors() - descriptors
        check(grown < 24, "%s: memory grew by %d MiB" % (what, grown))
        check(more <= MOST + 8, "%s: %d descriptors more" % (what, more))


def unclaimed(scene):
    """150 connections say hello, and leave a message that nobody will ever take."""
    memory, descriptors = scene.memory(), scene.descriptors()
    size = 500 * 1024
    held = []
    for _ in range(150):
        peer = scene.greeted()
        held.append(peer)
        try:
            check(peer.hello()[0] == wire.OK, "no hello")
            peer.send(wire.frame(wire.EAGER, size, tag=77) + bytes(size))
        except wire.Closed:
            pass  # more than its share
    scene.bounded("unclaimed messages", memory, descriptors)
    scene.serves()
    for peer in held:
        peer.socket.close()


def silent(scene):
    """They say hello properly and nothing more: their share is theirs for some seconds only."""
    held = []
    for _ in range(SILENT):
        peer = scene.greeted()
        check(peer.hello()[0] == wire.OK, "no hello")
        held.append(peer)
    for peer in held:
        check(peer.closed_within(15), "a stranger is kept for ever")
    lines = [line for line in scene.fs.log(META).splitlines() if "stranger dropped: not authenticated in time" in line]
    check(0 < len(lines) < SILENT, "%d lines in the log for %d strangers" % (len(lines), SILENT))


def answers_not_taken(scene):
    """Pings whose answers are not read: the server is not kept busy with what it cannot send."""
    held = [scene.greeted() for _ in range(3)]
    memory, descriptors = scene.memory(), scene.descriptors()
    for peer in held:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.socket.settimeout(0.3)
        try:
            for i in range(2500):
                # Large ones until the kernel's buffers are full, then small ones: each is an answer that waits.
                body = peer.header(wire.PING, deadline_ms=0) + wire.text(bytes(6000 if i < 1000 else 0))
                peer.send(wire.frame(wire.UNEXPECTED, len(body), i << 13) + body)
                time.sleep(0.0003)  # within its window, as far as that can be seen from here
        except (OSError, wire.Closed):
            pass  # dropped, or the server reads no more
    scene.serves()
    scene.bounded("answers that nobody takes", memory, descriptors)
    for peer in held:
        peer.socket.close()


def entry_under_flood(scene):
    """New connections without a pause, each with a proper hello: a client gets in all the same."""
    stop = threading.Event()

    def flood():
        held = []
        while not stop.is_set():
            try:
                peer = scene.peer()
                peer.socket.setblocking(False)
                peer.socket.send(wire.tcp_hello())
                held.append(peer)
            except OSError:
                time.sleep(0.001)
            if len(held) > 200:
                held.pop(0).socket.close()
        for peer in held:
            peer.socket.close()

    memory, descriptors = scene.memory(), scene.descriptors()
    attackers = [threading.Thread(target=flood) for _ in range(2)]
    for attacker in attackers:
        attacker.start()
    try:
        for _ in range(3):
            scene.serves()
        scene.bounded("a flood of connections", memory, descriptors)
    finally:
        stop.set()
        for attacker in attackers:
            attacker.join()


resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
# The raw peers here speak version 1 of the protocol.
with Cluster(io=1, env={"SPATE_AUTH_ALLOW_V1": "yes"}) as fs:
    fs.up()
    scene = Scene(fs)
    scene.serves()
    for attack in (silent, unclaimed, answers_not_taken, entry_under_flood):
        begin = time.monotonic()
        attack(scene)
        print("%s: %.1f s" % (attack.__name__, time.monotonic() - begin))
    check(fs.pids()[META] == scene.pid, "the server has been replaced")
    scene.serves()
