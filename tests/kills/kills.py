#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills and stops processes of every role at random while programs work. No acknowledged data is lost. See README.md.

  kills.py [--seconds N] [--seed N]      without --seconds: SPATE_KILLS_SECONDS, else ten minutes
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
for folder in "tests/integration", "tests/nbd":
    sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], folder))
from cluster import SPATE, Cluster, alive, check, wait_until  # noqa: E402
from common import Export, wire  # noqa: E402
from table import Table  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
META = 1
LEASE = 3  # seconds of silence that end a session
PROGRAMS, COUNTERS, ON_MOUNT = 2, 3, 2  # programs below `spate run`, with libspate, and on the mount
CELLS, CELL = 32, 4096  # cells of the exported image
# Kills of a mount within this span, s: the supervisor gives up a mount that crashes more often in a minute.
MOUNT_KILLS, MOUNT_SPAN = 3, 70


class Image:
    """A client of a block device: writes cells of an export, reconnects when it is gone, and keeps what was
    acknowledged."""

    def __init__(self, fs, seed):
        self.fs, self.random = fs, random.Random(seed)
        self.acknowledged, self.begun = [0] * CELLS, [0] * CELLS
        fs.spate("put", "spate:/image", input=bytes(CELLS * CELL))
        self.unix = fs.root + "/image.socket"
        self.export, self.ends, self.wrong, self.writes = None, False, None, 0
        self.start()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def start(self):
        if os.path.exists(self.unix):
            os.unlink(self.unix)
        self.export = Export("--unix", self.unix, "spate:/image", env=self.fs.env)

    def kill(self):
        self.export.process.kill()
        self.export.process.communicate()
        self.start()

    def run(self):
        try:
            while not self.ends:
                try:
                    with wire.Connection(self.unix) as connection:
                        connection.socket.settimeout(120)
                        connection.go("")
                        while not self.ends:
                            self.step(connection)
                except (wire.Closed, ConnectionError, FileNotFoundError):
                    time.sleep(0.01)
        except Exception as error:  # reported by the thread that waits for this one
            self.wrong = "block: %r" % error

    def step(self, connection):
        cell = self.random.randrange(CELLS)
        if self.random.random() < 0.5:
            return self.look(connection, cell)
        if self.begun[cell] != self.acknowledged[cell]:
            return None  # an earlier write of the cell may still arrive
        self.begun[cell] += 1
        data = (b"%08d" % self.begun[cell]) * (CELL // 8)
        connection.write(cell * CELL, data, wire.FUA if self.random.random() < 0.2 else 0)
        self.acknowledged[cell] = self.begun[cell]
        self.writes += 1

    def look(self, connection, cell):
        data = connection.read(cell * CELL, CELL)
        words = {int(data[at:at + 8]) if data[at] else 0 for at in range(0, CELL, 8)}
        low, high = self.acknowledged[cell], self.begun[cell]
        check(all(low <= word <= high for word in words), "cell %d holds %s; %d was acknowledged, %d begun" % (cell, words, low, high))

    def end(self):
        self.ends = True
        self.thread.join()
        check(self.wrong is None, self.wrong)
        with self.export:
            with wire.Connection(self.unix) as connection:
                connection.go("")
                for cell in range(CELLS):
                    self.look(connection, cell)


class Kills:
    def __init__(self, fs, seed):
        self.fs, self.random = fs, random.Random(seed)
        self.table = Table(fs.root + "/table")
        self.workers = {}  # place: (number, process); first PROGRAMS, then COUNTERS, then ON_MOUNT
        self.next, self.events, self.crashes = 0, {}, []
        self.mount, self.done = fs.root + "/mount", {}

    def start(self, place, *words):
        below_run, by_library = place < PROGRAMS, PROGRAMS <= place < PROGRAMS + COUNTERS
        if by_library:
            words = ["--count"]
        folder = "/spate" if below_run else self.fs.dir if by_library else self.mount
        command = [sys.executable, "-B", HERE + "/worker.py", folder, self.fs.root + "/table", str(self.next), str(self.random.getrandbits(32)), *words]
        process = subprocess.Popen([SPATE, "run", "--", *command] if below_run else command, env=dict(self.fs.env, SPATE_FS=self.fs.dir),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.workers[place] = (self.next, process)
        self.next += 1
        return process

    def set_up(self):
        self.fs.up()
        self.fs.spate("setstripe", "-S", "64K", "spate:/")
        os.mkdir(self.mount)
        self.fs.spate("mount", "-p", self.mount)
        for place in range(PROGRAMS + COUNTERS + ON_MOUNT):
            self.start(place)
        wait_until(lambda: all(self.table.head(number)[2] for number in range(self.next)), "the programs begin", 60)

    def mount_server(self):
        supervisor = subprocess.run(["pgrep", "-f", "spate-mount [^ ]*spate.toml %s$" % self.mount], stdout=subprocess.PIPE, check=True).stdout
        found = []

        def served():
            found[:] = subprocess.run(["pgrep", "-P", supervisor.decode().strip(), "-f", "--", "--serve"], stdout=subprocess.PIPE).stdout.split()
            return found
        wait_until(served, "the mount is served")
        return int(found[0])

    # Faults.
    def kill_servers(self):
        servers = range(META, self.fs.io + 2)
        victims = self.random.choice(([META], [self.random.randint(2, self.fs.io + 1)], list(servers)))
        self.fs.kill(*victims)
        time.sleep(self.random.choice((0, 0.1, 0.5)))  # clients meet the dead servers, or not
        self.fs.up()

    def stop_server(self):
        """Stops the server for less or more time than a lease lasts."""
        victim = self.random.randint(META, self.fs.io + 1)
        self.stopped(self.fs.pids()[victim], self.random.choice((0.3, LEASE * 1.5)))

    def kill_program(self):
        place = self.random.randrange(PROGRAMS + COUNTERS)
        process = self.workers[place][1]
        process.kill()
        process.communicate()
        self.start(place)

    def stop_program(self):
        self.stopped(self.workers[self.random.randrange(PROGRAMS + COUNTERS)][1].pid, self.random.choice((0.3, LEASE * 1.5)))

    def stop_holder(self):
        """Stops the process for so long that its session ends, and others hold its lock when it goes on."""
        counters = [self.workers[place] for place in range(PROGRAMS, PROGRAMS + COUNTERS)]
        stopped = []

        def held():
            self.all_run()
            for number, process in counters:
                if self.table.head(number)[1]:
                    os.kill(process.pid, signal.SIGSTOP)
                    with open("/proc/%d/stat" % process.pid) as file:
                        stands = file.read().rsplit(")", 1)[1].split()[0] == "T"
                    if stands and self.table.head(number)[1]:
                        stopped.append(process.pid)
                        return True
                    os.kill(process.pid, signal.SIGCONT)  # the program has given the lock up in between
            return False
        wait_until(held, "a program stands still with the lock", 60)
        self.stopped(stopped[0], LEASE * 1.5)

    def kill_mount(self):
        now = time.monotonic()
        self.crashes = [at for at in self.crashes if now - at < MOUNT_SPAN]
        if len(self.crashes) < MOUNT_KILLS:
            self.crashes.append(now)
            os.kill(self.mount_server(), signal.SIGKILL)

    def stop_mount(self):
        self.stopped(self.mount_server(), self.random.choice((0.3, LEASE * 1.5)))

    def kill_block(self):
        self.image.kill()

    def stop_block(self):
        self.stopped(self.image.export.process.pid, 0.5)

    def stopped(self, pid, seconds):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)  # the length of the standstill
        os.kill(pid, signal.SIGCONT)

    def run(self, seconds):
        self.image = Image(self.fs, self.random.getrandbits(32))
        events = [self.kill_servers, self.kill_program, self.kill_mount, self.kill_block, self.stop_server, self.stop_program,
                  self.stop_holder, self.stop_mount, self.stop_block]
        end = time.monotonic() + seconds
        first = self.random.sample(events, len(events))  # each event once, then at random
        while time.monotonic() < end or first:
            event = first.pop() if first else self.random.choice(events)
            event()
            self.events[event.__name__] = self.events.get(event.__name__, 0) + 1
            time.sleep(self.random.uniform(0, 0.5))
            self.all_run()

    def all_run(self):
        for number, process in self.workers.values():
            check(process.poll() is None, "a program has ended: %s" % (process.stdout.read() if process.poll() is not None else ""))
        check(self.image.wrong is None, self.image.wrong)

    def end(self):
        self.table.stop()
        for number, process in self.workers.values():
            self.ended(process)
        self.image.end()
        for victims in ([], list(range(META, self.fs.io + 2))):
            if victims:
                self.fs.kill(*victims)
                self.fs.up()
            for place in 0, PROGRAMS + COUNTERS:
                self.ended(self.start(place, "--verify"))
        self.fs.spate("umount", self.mount)

    def ended(self, process):
        out = process.communicate(timeout=180)[0].strip()
        check(process.returncode == 0, "a program ended with %s: %s" % (process.returncode, out))
        for pair in out.split():
            if "=" in pair:
                what, times = pair.rsplit("=", 1)
                self.done[what] = self.done.get(what, 0) + int(times)

    def leave(self):
        for number, process in self.workers.values():
            if process.poll() is None:
                process.kill()
                process.communicate()
        subprocess.run([SPATE, "umount", "-z", self.mount], env=self.fs.env, stderr=subprocess.DEVNULL)
        if hasattr(self, "image"):
            self.image.ends = True
            self.image.export.process.kill()
            self.image.thread.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("SPATE_KILLS_SECONDS", "600")))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    print("seed %d" % options.seed, flush=True)
    with Cluster(io=2, env={"SPATE_META_SESSION_LEASE": "%d s" % LEASE, "SPATE_CLIENT_DEADLINE": "120 s"}) as fs:
        kills = Kills(fs, options.seed)
        try:
            kills.set_up()
            kills.run(options.seconds)
            kills.end()
        finally:
            kills.leave()
        fs.fsck()
        print("events:", *("%s=%d" % pair for pair in sorted(kills.events.items())))
        print("done:", *("%s=%d" % pair for pair in sorted(kills.done.items())), "block writes=%d" % kills.image.writes)
        for what in "put", "remove", "look", "count":
            check(kills.done.get(what, 0) > 0, "nobody has done a " + what)
        check(kills.image.writes > 0, "nothing was written to the block device")


main()
