#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mirrored files on slow links: what io servers and meta servers send each other is late, by up to more than a second, in one
direction or the other. Then the io server that leads is killed, while programs write and read. They go on, no byte is lost, and
the server that comes back is brought up to date. The io servers reach the meta servers by a relay, which delays what it passes on.

With --meta: three meta servers. Then it is skipped where there is no etcd (SPATE_ETCD names it, else the PATH)."""
import asyncio
import json
import os
import re
import shutil
import signal
import sys
import threading

from cluster import Cluster, alive, check, free_ports, skip, wait_until
from mirror import Worker, wait_until_whole

METAS = 3 if "--meta" in sys.argv else 1
IOS, VOTES = 3, 3
LATE = (0.3, 1.2)  # s
PATIENT = 120      # s; a handshake takes several round trips, and each may have to wait longer than the one before


class Relay:
    """Passes connections on to the meta servers, on a thread of its own. `late`: seconds by direction."""

    def __init__(self, ports):
        """ports: own port -> port of the meta server"""
        self.late = {"to io": 0, "to meta": 0}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        for own, target in ports.items():
            asyncio.run_coroutine_threadsafe(asyncio.start_server(self.accepting(target), "127.0.0.1", own), self.loop).result()

    def accepting(self, target):
        async def accept(reader, writer):
            try:
                there, back = await asyncio.open_connection("127.0.0.1", target)
            except OSError:
                writer.transport.abort()
                return
            await asyncio.gather(self.pass_on(reader, back, "to meta"), self.pass_on(there, writer, "to io"))
        return accept

    async def pass_on(self, source, sink, direction):
        """Keeps the order, and the end of the stream arrives as late as its bytes."""
        queue = asyncio.Queue()
        writing = asyncio.create_task(self.write_late(queue, sink))
        data = b"?"
        while data:
            try:
                data = await source.read(1 << 16)
            except OSError:
                data = b""
            await queue.put((self.loop.time() + self.late[direction], data))
        await writing

    async def write_late(self, queue, sink):
        try:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(due - self.loop.time())
                if not data:
                    break
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        sink.close()


class Slow(Cluster):
    """The io servers are started with a spate.toml in which the meta servers have the relay's addresses. Programs read the other one."""

    def __init__(self):
        super().__init__(io=METAS + IOS - 1)
        self.port = free_ports(METAS + IOS + 2 * VOTES)
        self.relayed = free_ports(METAS)
        self.relay = Relay({self.relayed + i: self.port + i for i in range(METAS)})

    def begin(self):
        several = ("--meta", str(METAS)) if METAS > 1 else ()
        self.spate("up", "-q", "--dir", self.dir, *several, "--io", str(IOS), "--replicas", "2", "--port", str(self.port))
        pids = self.pids()
        self.seen.update(pids.values())
        ios = range(METAS + 1, METAS + IOS + 1)
        self.kill(*ios, sig=signal.SIGTERM)
        wait_until(lambda: not any(alive(pids[server]) for server in ios), "the io servers end")
        self.restart()

    def restart(self):
        """Starts the io servers that are down."""
        path = self.dir + "/spate.toml"
        with open(path) as f:
            text = slow = f.read()
        for i in range(METAS):
            slow, count = re.subn(r'urls = \[[^]]*"tcp://127.0.0.1:%d"[^]]*\]' % (self.port + i), 'urls = ["tcp://127.0.0.1:%d"]' % (self.relayed + i), slow)
            check(count == 1, "server %d is not in spate.toml" % (i + 1))
        slow, count = re.subn(r"^\[auth\]\n", '[auth]\nnat = "yes"\n', slow, flags=re.M)  # otherwise a relay is refused
        check(count == 1, "spate.toml has no [auth]")
        with open(path, "w") as f:
            f.write(slow)
        done = self.run("up", "-q", "--dir", self.dir, timeout=PATIENT)  # it may say that its own connection is slow
        check(done.returncode == 0, "spate up: exit %d, %s" % (done.returncode, done.stderr))
        with open(path, "w") as f:
            f.write(text)
        self.seen.update(self.pids().values())


def leads(fs, path):
    """The server of the primary of the first strip's group."""
    return json.loads(fs.spate("getstripe", "--json", "spate:" + path))[0]["slots"][0][0] // 256


def writes_go_on(fs):
    fs.begin()
    workers = [Worker(fs, 1, False), Worker(fs, 2, False)]
    for worker in workers:
        worker.goes_on(PATIENT)
    for direction in fs.relay.late:
        for late in LATE:
            fs.relay.late[direction] = late
            wait_until_whole(fs, PATIENT)
            server = leads(fs, "/" + workers[0].name)
            fs.kill(server)
            for worker in workers:
                worker.goes_on(PATIENT)
            fs.restart()
            wait_until_whole(fs, PATIENT)
            for worker in workers:
                worker.goes_on(PATIENT)
            print("%s, %.1f s: server %d was killed" % (direction, late, server), flush=True)
            fs.relay.late[direction] = 0
    print("longest calls: %s s" % [worker.end() for worker in workers])
    fs.fsck()
    fs.fsck("--contents")


if __name__ == "__main__":
    if METAS > 1 and not os.environ.get("SPATE_ETCD") and not shutil.which("etcd"):
        skip("no etcd")
    with Slow() as cluster:
        writes_go_on(cluster)
