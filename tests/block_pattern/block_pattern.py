#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients read and write self-describing cells by all data paths at random, while servers and clients are killed,
stopped and restarted; each word that is read must be what was acknowledged. See README.md.

  block_pattern.py [--seconds N] [--seed N]      without --seconds: SPATE_BLOCK_PATTERN_SECONDS, else ten minutes
"""
import argparse
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import BIN, Cluster, check, skip  # noqa: E402
from paths import refuses_direct, up_by_shm  # noqa: E402

CLIENTS = 3           # the last one uses shared memory
CELL = struct.Struct("<IIII")
CELLS = [512, 256, 64, 48, 12]  # cells of each file: blocks.h
STRIDE = 512 * CELL.size
# The possible results of an operation. A forced path that is not possible is refused (not_supported). A fenced holder,
# or a sync after a server's restart, gets lost_write. Nothing else can happen: the deadline is longer than any restart
# takes.
ENDS = {"ok", "not_supported", "lost_write"}
# The least number of operations of each client, whatever the time: on a busy machine its first open may take all of it.
LEAST = "least=400"


class BlockPattern:
    """A file system, its clients, and what they have written. p2p: with one io server, and with a file in place of a
    device's memory."""

    def __init__(self, fs, seed, p2p):
        self.fs, self.p2p, self.random = fs, p2p, random.Random(seed)
        self.table = fs.root + "/table"
        self.clients = {}
        self.counts = {}
        self.restarts = self.starts = 0

    def set_up(self):
        up_by_shm(self.fs)
        self.fs.spate("setstripe", "-S", "64K", "spate:/")

    def paths(self, client):
        if client == CLIENTS - 1:
            return "auto,buffered,direct,bypass"
        return "auto,buffered,cached,direct" + (",p2p" if self.p2p else "")

    def start(self, client, *words, clients=CLIENTS, paths=None):
        config = "spate.toml" if client == CLIENTS - 1 else "tcp.toml"
        self.starts += 1
        return subprocess.Popen([os.path.join(BIN, "block_pattern_client"), os.path.join(self.fs.dir, config), self.table, "paths=" + (paths or self.paths(client)),
                                 "client=%d" % client, "clients=%d" % clients, "seed=%d" % (self.random.getrandbits(40) + self.starts), *words],
                                env=self.fs.env, stdout=subprocess.PIPE, text=True)

    def ended(self, process, client):
        """Checks that a client has ended well, and adds its counts."""
        out = process.communicate(timeout=300)[0].strip()
        check(process.returncode == 0, "client %d: exit %d, said: %s" % (client, process.returncode, out))
        for what, times in json.loads(out).items():
            check(what.split()[2] in ENDS, "client %d: %s, %d times" % (client, what, times))
            self.counts[what] = self.counts.get(what, 0) + times

    def run(self, seconds, *words):
        """Runs clients while faults happen."""
        # First one client writes past the server alone, since other clients would take its leases away too quickly.
        self.ended(self.start(CLIENTS - 1, "seconds=1", "least=100", paths="bypass"), CLIENTS - 1)
        self.end = time.monotonic() + seconds
        for client in range(CLIENTS):
            self.clients[client] = self.start(client, "seconds=%d" % seconds, LEAST, *words)
        try:
            while time.monotonic() < self.end - 1:
                time.sleep(self.random.uniform(0.1, 1.0))
                event = self.random.choices((self.kill_io, self.kill_meta, self.kill_all, self.kill_client, self.stop_client, self.empty_cache),
                                            (8, 3, 2, 3, 2, 4))[0]
                event()
                for client, process in self.clients.items():
                    check(process.poll() in (None, 0), "client %d: exit %s, said: %s" % (client, process.returncode, process.stdout.read() if process.poll() else ""))
            for client, process in self.clients.items():
                self.ended(process, client)
        finally:
            for process in self.clients.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def restart(self, *servers):
        self.fs.kill(*servers)
        time.sleep(self.random.choice((0, 0.1, 0.5)))  # clients meet the dead servers, or not
        self.fs.up()
        self.restarts += 1

    def kill_io(self):
        self.restart(self.random.randint(2, self.fs.io + 1))

    def kill_meta(self):
        self.restart(1)

    def kill_all(self):
        self.restart(*range(1, self.fs.io + 2))

    def kill_client(self):
        """Kills a client. The data that it was writing may arrive or not, also later, so those cells are never written
        again."""
        client = self.random.randrange(CLIENTS)
        left = int(self.end - time.monotonic())
        if left < 1 or self.clients[client].poll() is not None:
            return
        self.clients[client].kill()
        self.clients[client].wait()
        with open(self.table, "r+b") as f, mmap.mmap(f.fileno(), 0) as table:
            for file, cells in enumerate(CELLS):
                for cell in range(client, cells, CLIENTS):
                    at = file * STRIDE + cell * CELL.size
                    issued, acknowledged, retired, _ = CELL.unpack_from(table, at)
                    if issued != acknowledged:
                        CELL.pack_into(table, at, issued, acknowledged, 1, 0)
        self.clients[client] = self.start(client, "seconds=%d" % left, LEAST)

    def stop_client(self):
        """Stops a client for longer than a holder of leases may take to give them up."""
        client = self.clients[self.random.randrange(CLIENTS)]
        if client.poll() is None:
            client.send_signal(signal.SIGSTOP)
            time.sleep(0.5)  # the length of the standstill
            client.send_signal(signal.SIGCONT)

    def empty_cache(self):
        for server in range(2, self.fs.io + 2):
            for file in self.fs.datafiles(server):
                try:
                    fd = os.open(file, os.O_RDWR)
                except FileNotFoundError:
                    continue  # the file of a fenced holder is gone
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def check_all(self):
        """Reads every cell by each path, from the disk."""
        self.kill_all()
        self.empty_cache()
        for client in (0, CLIENTS - 1):
            self.ended(self.start(client, clients=0), client)

    def acknowledged(self):
        with open(self.table, "rb") as f:
            table = f.read()
        return sum(CELL.unpack_from(table, file * STRIDE + cell * CELL.size)[1] for file, cells in enumerate(CELLS) for cell in range(cells))


def cluster(io, folder):
    env = {"SPATE_FLOW_BYPASS": "write", "SPATE_CLIENT_BYPASS": "write", "SPATE_FLOW_RECALL_DEADLINE": "300 ms", "SPATE_CLIENT_DEADLINE": "120 s"}
    if io == 1:
        memory = folder + "/p2p-memory"
        with open(memory, "wb") as f:
            f.truncate(8 << 20)
        env.update(SPATE_FLOW_P2P_MEMORY=memory, SPATE_FLOW_P2P_SIZE="5 MiB")
    os.mkdir(folder + "/%d" % io)
    return Cluster(io=io, env=env, folder=folder + "/%d" % io)


def place():
    """Makes a folder on a disk, since storage in memory has no direct path."""
    folder = tempfile.mkdtemp(prefix="spate-block-pattern-", dir=BIN)
    if refuses_direct(folder):
        shutil.rmtree(folder)
        skip("the build folder's file system has no O_DIRECT")
    return folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("SPATE_BLOCK_PATTERN_SECONDS", "600")))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    print("seed %d" % options.seed, flush=True)
    folder, counts = place(), {}
    try:
        for io in (2, 1):
            with cluster(io, folder) as fs:
                pattern = BlockPattern(fs, options.seed + io, p2p=io == 1)
                pattern.set_up()
                pattern.run(options.seconds // 2)
                pattern.check_all()
                fs.fsck()
                print("%d io servers: %d restarts, %d writes acknowledged" % (io, pattern.restarts, pattern.acknowledged()))
                for what, times in pattern.counts.items():
                    counts[what] = counts.get(what, 0) + times
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for what in sorted(counts):
        print("  %-32s %d" % (what, counts[what]))
    for path in ("auto", "buffered", "cached", "direct", "bypass", "p2p"):
        check(counts.get("read %s ok" % path, 0) > 0, "nothing was read by path " + path)
        check(path == "cached" or counts.get("write %s ok" % path, 0) > 0, "nothing was written by path " + path)


if __name__ == "__main__":
    main()
