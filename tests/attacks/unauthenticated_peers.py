#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers without a key hold a bounded share of a server's memory, descriptors and time, and a client gets in while they
come. Attacks: unclaimed messages of many connections; answers that nobody takes; a flood of new connections; silence; one
address that takes all places; lanes of shared memory that are filled again and again."""
import os
import re
import resource
import select
import signal
import socket
import sys
import threading
import time

from lib import STRANGER
import wire
from cluster import Cluster, check, wait_until
from paths import up_by_shm
from shm_peer import BULK, CONTROL, Refused, ShmPeer

META = 1
MOST = 256  # bmi/network.h: UnauthenticatedPeerLimits
DEADLINE = 5  # s, assembly/registry.cc: an unauthenticated peer that is kept longer than this is dropped in any case
SILENT = 40


class Scene:
    def __init__(self, fs):
        self.fs = fs
        self.pid = fs.pids()[META]
        self.fs_id = int(re.search(r'^id = "([0-9a-f]+)"', open(fs.dir + "/spate.toml").read(), re.M).group(1), 16)

    def peer(self, source=None):
        return wire.Connection(self.fs.port, self.fs_id, source=source)

    def asking(self, source):
        """An unauthenticated peer whose handshake is under way."""
        peer = self.peer(source)
        check(peer.hello_tcp() == wire.OK and peer.hello()[0] == wire.OK, "no hello")
        return peer

    def after_handshake(self):
        peer = self.peer()
        check(peer.hello_tcp() == wire.OK, "no welcome")
        return peer

    def memory(self):
        """Returns MiB in use, or 0 under a sanitizer, which itself keeps several times as much."""
        if os.environ.get("SPATE_SANITIZED"):
            return 0
        with open("/proc/%d/status" % self.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024

    def shared(self):
        """Returns MiB of memory that the server shares with its peers, touched or not."""
        with open("/proc/%d/maps" % self.pid) as f:
            ranges = [line.split()[0].split("-") for line in f if "/memfd:spate-l" in line]
        return sum(int(end, 16) - int(begin, 16) for begin, end in ranges) / (1 << 20)

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
    """150 connections say hello, and each leaves a message that no receiver will ever take."""
    memory, descriptors = scene.memory(), scene.descriptors()
    size = 500 * 1024
    held = []
    for _ in range(150):
        peer = scene.after_handshake()
        held.append(peer)
        try:
            check(peer.hello()[0] == wire.OK, "no hello")
            peer.send(wire.frame(wire.EAGER, size, tag=77) + bytes(size))
        except wire.Closed:
            pass  # the server refuses more than its share
    scene.bounded("unclaimed messages", memory, descriptors)
    scene.serves()
    for peer in held:
        peer.socket.close()


def silent(scene):
    """Connections say hello properly and then nothing. They keep their share for some seconds only."""
    held = []
    for _ in range(SILENT):
        peer = scene.after_handshake()
        check(peer.hello()[0] == wire.OK, "no hello")
        held.append(peer)
    for peer in held:
        check(peer.closed_within(15), "an unauthenticated peer is kept for ever")
    lines = [line for line in scene.fs.log(META).splitlines() if "unauthenticated peer dropped: not authenticated in time" in line]
    check(0 < len(lines) < SILENT, "%d lines in the log for %d unauthenticated peers" % (len(lines), SILENT))


def answers_not_taken(scene):
    """Clients do not read the answers to their pings. The server must not stay busy with data that it cannot send."""
    held = [scene.after_handshake() for _ in range(3)]
    memory, descriptors = scene.memory(), scene.descriptors()
    for peer in held:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.socket.settimeout(0.3)
        try:
            for i in range(2500):
                # Large pings until the kernel's buffers are full, then small ones: each of them is an answer that
                # waits.
                body = peer.header(wire.PING, deadline_ms=0) + wire.text(bytes(6000 if i < 1000 else 0))
                peer.send(wire.frame(wire.UNEXPECTED, len(body), i << 13) + body)
                time.sleep(0.0003)  # stays within the window, as far as the client can tell
        except (OSError, wire.Closed):
            pass  # the connection is dropped, or the server does not read on
    scene.serves()
    scene.bounded("answers that nobody takes", memory, descriptors)
    for peer in held:
        peer.socket.close()


def entry_under_flood(scene):
    """New connections without a pause, each with a proper hello. A client still gets in."""
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


def one_address(scene):
    """One address takes all places, by unauthenticated peers that are as far in their handshake as anybody. Unauthenticated peers of other
    addresses come in and stay, however many of that address follow."""
    for _ in range(5):
        crowd = [scene.asking("127.0.0.2") for _ in range(MOST)]
        begin = time.monotonic()
        others = [scene.asking("127.0.0.%d" % (3 + i % 10)) for i in range(30)]
        crowd += [scene.asking("127.0.0.2") for _ in range(MOST)]
        closed = select.select([peer.socket for peer in others], [], [], 0)[0]
        slow = time.monotonic() - begin > 0.9 * DEADLINE
        gone = len(select.select([peer.socket for peer in crowd], [], [], 0)[0])
        for peer in crowd + others:
            peer.socket.close()
        if slow:
            continue  # those that are closed may have had their time
        check(not closed, "%d of %d unauthenticated peers were dropped for those of another address" % (len(closed), len(others)))
        check(gone >= MOST, "only %d of %d unauthenticated peers of one address were dropped" % (gone, len(crowd)))
        return
    print("this machine is too slow to tell")


def by_shared_memory(path, ready, go_on):
    """Fills every place of the server, and each lane again and again. Runs as another user if possible."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(STRANGER, STRANGER, STRANGER)
        os.setresuid(STRANGER, STRANGER, STRANGER)
    held = []
    for i in range(MOST + 40):
        try:
            held.append(ShmPeer(path, version=1 + i % 2))
        except Refused:
            pass
    for _ in range(4):
        for peer in list(held):
            try:
                for c in (CONTROL, BULK):
                    peer.fill(c)
            except OSError:  # the connection was dropped
                held.remove(peer)
    os.write(ready, b"%d" % len(held))
    os.read(go_on, 1)


def shm_lanes(scene):
    """The memory that a server shares with unauthenticated peers is small, and an honest client gets in next to them."""
    memory, descriptors, shared = scene.memory(), scene.descriptors(), scene.shared()
    (ready, tell_ready), (go_on, tell_go_on) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)
        try:
            by_shared_memory(scene.fs.root + "/s1", tell_ready, go_on)
            os._exit(0)
        except BaseException as e:  # pylint: disable=broad-except
            print("attacker: %r" % e, file=sys.stderr)
            os._exit(1)
    os.close(tell_ready)
    try:
        held = int(os.read(ready, 20) or b"0")
        check(held >= 32, "only %d of the attacker's connections are there" % held)
        grown, more = scene.shared() - shared, scene.descriptors() - descriptors
        check(grown < 24, "%d unauthenticated peers share %d MiB with the server" % (held, grown))
        check(more <= 3 * MOST + 8, "%d descriptors more" % more)
        check(scene.memory() - memory < 24, "memory grew by %d MiB" % (scene.memory() - memory))
        scene.serves()
    finally:
        os.write(tell_go_on, b"x")
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    check(ended == 0, "the attacker ended early")
    wait_until(lambda: scene.shared() <= shared + 2, "what was shared with unauthenticated peers is given back")


def play(fs, *attacks):
    scene = Scene(fs)
    scene.serves()
    for attack in attacks:
        begin = time.monotonic()
        attack(scene)
        print("%s: %.1f s" % (attack.__name__, time.monotonic() - begin))
    check(fs.pids()[META] == scene.pid, "the server has been replaced")
    scene.serves()


resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
# The raw peers here speak version 1 of the protocol.
with Cluster(io=1, env={"SPATE_AUTH_ALLOW_V1": "yes"}) as fs:
    fs.up()
    play(fs, silent, unclaimed, answers_not_taken, one_address, entry_under_flood)
with Cluster(io=1, env={"SPATE_NETWORK_SHM_USERS": "any"}) as fs:
    os.chmod(fs.root, 0o755)
    up_by_shm(fs)
    play(fs, shm_lanes)
