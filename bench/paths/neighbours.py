# SPDX-License-Identifier: Apache-2.0
"""gmblock, Figure 8(b): what serving remote reads costs a program of the same machine that needs its memory's bandwidth. bzip2 and
a STREAM triad run pinned to one core, while a server serves random reads of 128 KiB, four under way, of a file in memory: by each
path, and beside it NBD servers of the same file.

Where: "beside", the program on one core, server and client on the other, as in the paper; "same core", the program on the server's
core, the client on the other. How fast: as it goes, and at --rate MB/s, where all serve the same. A figure is the time of one pass of
the program beside that of the same program alone, in the same run.
"""
import json
import os
import random
import shutil
import statistics
import subprocess
import time

from bed import KIB, MIB, Server, say
from peers import Peers
from servers import log_once
from tables import measure, table

REQUEST, DEPTH = 128 * KIB, 4


class Nobody:
    """Takes the place of the program, to measure how fast the server is without one."""

    def run(self, core, seconds):
        time.sleep(seconds)  # the measured time
        return None


class Triad:
    def __init__(self, options):
        self.program = os.path.join(options.bin, "triad")

    def run(self, core, seconds):
        """Returns the median of the seconds a pass."""
        out = subprocess.run(["taskset", "-c", str(core), self.program, str(seconds), "32"], check=True, stdout=subprocess.PIPE).stdout
        return json.loads(out)["seconds"]


class Bzip2:
    def __init__(self, options, folder):
        self.file = os.path.join(folder, "text")
        some = random.Random(1)
        words = ["".join(some.choices("abcdefghij", k=some.randint(2, 9))) for _ in range(3000)]
        with open(self.file, "w") as f:
            f.write(" ".join(some.choices(words, k=MIB // 7)))

    def run(self, core, seconds):
        took, end = [], time.monotonic() + seconds
        while not took or time.monotonic() + took[-1] < end:
            begin = time.monotonic()
            subprocess.run(["taskset", "-c", str(core), "bzip2", "-c", self.file], check=True, stdout=subprocess.DEVNULL)
            took.append(time.monotonic() - begin)
        return statistics.median(took)


class Bench:
    def __init__(self, options, server, folder):
        self.options, self.server = options, server
        self.lead = min(0.2, options.seconds)  # seconds for which a client works before the program begins and after it ends
        self.peers = Peers(options, server)
        self.programs = {"nobody": Nobody(), "triad": Triad(options)}
        if shutil.which("bzip2"):
            self.programs["bzip2"] = Bzip2(options, folder)
        else:
            log_once("no figures beside bzip2: it is not installed")

    def place(self, same_core):
        """Returns the processor of the program. The servers and clients move to their processors."""
        server, other = self.options.server_core, self.options.client_core
        self.server.pin(server)
        self.peers.bench.options.server_core = server
        self.core = self.peers.bench.options.client_core = other if same_core else server
        return server if same_core else other

    def alone(self, name, at):
        return {"seconds": self.programs[name].run(self.place(at[0]), self.options.seconds)} if name != "nobody" else None

    def native(self, path, name, at):
        core = self.place(at[0])
        client = self.server.client(path, core=self.core, work="random", request=REQUEST, depth=DEPTH, size=self.options.size,
                                    seconds=self.options.seconds + 2 * self.lead, rate=at[1])
        try:
            say(client)
            time.sleep(self.lead)  # until the client is at full speed
            took = self.programs[name].run(core, self.options.seconds)
            told = json.loads(client.stdout.readline())
            say(client)
            if client.wait() != 0:
                raise SystemExit("paths_client failed")
        finally:
            client.kill()
            client.wait()
        return {"gb_s": told["bytes"] / told["seconds"] / 1e9, "seconds": took or 0}

    def nbd(self, peer, name, at):
        core = self.place(at[0])
        cell = {"kind": "read", "size": REQUEST, "depth": DEPTH, "connections": 1}
        try:
            with self.peers.bench.serving(peer) as (_, where):
                client = self.peers.bench.client(where, cell, self.options.seconds + 2 * self.lead, at[1])
                try:
                    time.sleep(self.lead)  # until the client is at full speed
                    took = self.programs[name].run(core, self.options.seconds)
                    told = json.loads(client.communicate(timeout=self.options.seconds + 30)[0])
                finally:
                    client.kill()
                    client.wait()
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as why:
            log_once(f"{peer.name} has no figure beside {name}: {why}")
            return None
        return {"gb_s": told["bytes"] / told["seconds"] / 1e9, "seconds": took or 0}

    def series(self, name):
        found = {"alone": lambda at: self.alone(name, at)}
        for path in ("buffered", "cached", "bypass"):
            found["spate " + path] = lambda at, path=path: self.native(path, name, at)
        for peer in self.peers.servers:
            found[peer.name] = lambda at, peer=peer: self.nbd(peer, name, at)
        return found


def quotients(found, by, key):
    """Divides each series' figure by that of `by` at the same point."""
    return {name: [row and base and base[key] and {"value": row[key] / base[key]} for row, base in zip(rows, by(name))] for name, rows in found.items()}


def run(options):
    rate = options.rate * 10**6
    places = {"beside, full speed": (False, 0), "beside, %d MB/s" % options.rate: (False, rate), "same core, full speed": (True, 0),
              "same core, %d MB/s" % options.rate: (True, rate)}
    places = {name: at for number, (name, at) in enumerate(places.items()) if number in (options.points or range(4))}
    names, results = list(places), {}
    with Server(options, ["/dev/shm"]) as server:
        server.run("buffered", work="write", request=MIB, depth=4, size=options.size)
        bench = Bench(options, server, server.root)
        found = {}
        for name in bench.programs:
            found[name] = measure("neighbours, %s:" % name, list(places.values()), bench.series(name), options.runs)
    for name in [name for name in found if name != "nobody"]:
        slower = quotients(found[name], lambda _: found[name]["alone"], "seconds")
        results["neighbours_" + name] = table("gmblock Figure 8(b): %s, time of a pass" % name, "1: alone", "where and how fast", names, slower, "value")
        served = {one: rows for one, rows in found[name].items() if one != "alone"}
        results["neighbours_%s_gb_s" % name] = table("... served while %s runs" % name, "GB/s", "where and how fast", names, served, "gb_s")
        kept = quotients(served, lambda one: found["nobody"][one], "gb_s")
        results["neighbours_%s_kept" % name] = table("... of what is served without %s" % name, "1: all", "where and how fast", names, kept, "value")
        if "nbd probe-sendfile" in slower:
            beside = quotients({one: rows for one, rows in slower.items() if one != "alone"}, lambda _: slower["nbd probe-sendfile"], "value")
            results["neighbours_%s_probe" % name] = table("... %s beside what the sendfile probe costs" % name, "bar 1.2 at equal bandwidth",
                                                         "where and how fast", names, beside, "value")
    return results
