# SPDX-License-Identifier: Apache-2.0
"""Machines of tests that cut machines off from each other. Each has its own network, processes, /run and /srv, and runs
the programs of the build. All of it ends with the processes of the test."""
import json
import os
import signal
import subprocess
import sys
import time

from cluster import BIN, PATIENCE, check, wait_until
from machines import Machines, enter

PATIENT = 90  # s that a test waits for what takes 4 s on an idle machine
NOBODY = "02:00:00:00:00:01"  # a hardware address that no machine has


class Networked(Machines):
    """Machines whose networks can fail. Node I has the address 10.1.0.I, as in Machines."""

    def __init__(self, names, variables=None):
        super().__init__(names)
        self.variables = variables or {}

    def environment(self):
        broken = {name: os.environ[name] for name in ("SPATE_BROKEN_CHECK",) if name in os.environ}  # scripts/break-checks
        return {**super().environment(), **self.variables, **broken}

    def __enter__(self):
        super().__enter__()
        for program in ("spate", "spated"):
            os.symlink(os.path.join(BIN, program), "%s/bin/%s" % (self.root, program))
        self.workers = []
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            # The error stands before the long logs, so that a reader of only the first lines sees it.
            print("%s: %s" % (kind.__name__, error), file=sys.stderr)
            for name in self.names:
                print("--- %s\n%s" % (name, self.run(name, "tail -n 40 /srv/data/spate/log/*.log /srv/*.log 2>/dev/null || true").stdout), file=sys.stderr)
        for worker in self.workers:
            worker.child.kill()
            worker.child.wait()
        return super().__exit__(kind, error, trace)

    def number(self, name):
        return self.names.index(name) + 1

    def link(self, name, state):
        """Takes the cable of a machine out ("down") or puts it in ("up")."""
        subprocess.run(["ip", "link", "set", "v%d" % self.number(name), state], check=True)

    def drop(self, source, target):
        """Packets from `source` to `target` are lost from now on, and nobody is told."""
        self.type(source, "ip neigh replace 10.1.0.%d lladdr %s nud permanent dev eth0" % (self.number(target), NOBODY))

    def pass_on(self, source, target):
        """Ends drop()."""
        self.type(source, "ip neigh del 10.1.0.%d dev eth0" % self.number(target))

    def part(self, some, others, how=None):
        """Cuts each machine of `some` from each of `others`, both ways; or does `how` (pass_on) instead."""
        for one in some:
            for other in others:
                for pair in ((one, other), (other, one)):
                    (how or self.drop)(*pair)

    def processes(self, name, sig):
        """Sends a signal to all processes of a machine but its first one, which only waits."""
        self.type(name, "kill -%d -1" % sig)
        if sig == signal.SIGKILL:
            wait_until(lambda: self.run(name, "! grep -hE '^[0-9]+ \\((spated|etcd)\\) [^ZX]' /proc/[0-9]*/stat").returncode == 0, "the processes of %s end" % name)

    def status(self, name):
        """Returns (exit code, rows) of `spate status` on a machine."""
        done = subprocess.run([*enter(self.pids[name]), "spate", "status", "--json"], env=self.environment(), timeout=60 * PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.returncode, json.loads(done.stdout or b"[]")

    def degraded(self, name):
        """Returns how many groups lack a copy, as `spate status` says on a machine."""
        return sum(row["degraded"] for row in self.status(name)[1] if "groups" in row)

    def whole(self, name, holder):
        """Waits until `spate status` says on the machine `name` that nothing is missing. Then compares all copies, on a
        machine that has the server key."""
        began = time.monotonic()
        last = []

        def healthy():
            last[:] = [self.status(name)]
            code, rows = last[0]
            groups = [row for row in rows if "groups" in row]
            return code == 0 and groups and groups[0]["groups"] > 0 and groups[0]["degraded"] == 0
        try:
            wait_until(healthy, "the file system is whole", PATIENT)
        except AssertionError as error:
            raise AssertionError("%s: %s" % (error, last)) from error
        print("  whole after %.1f s" % (time.monotonic() - began), flush=True)
        self.fsck(holder, "--contents")

    def fsck(self, name, *args):
        """Checks that `spate fsck ARGS` finds no error. See Cluster.fsck()."""
        said = []

        def is_complete():
            said[:] = [self.run(name, " ".join(("spate fsck", *args)))]
            return said[0].returncode != 8 or "is not up to date" not in said[0].stdout
        wait_until(is_complete, "all copies are up to date", PATIENT)
        check(said[0].returncode == 0, "fsck is not clean: exit %d\n%s" % (said[0].returncode, said[0].stdout))


class Worker:
    """A program on one machine, started with `words`. It prints a line now and then, and ends in order when its standard
    input does."""

    def __init__(self, machines, name, title, words, env=None):
        self.title, self.log = title, "%s/%s.out" % (machines.root, title)
        with open(self.log, "wb") as out:
            self.child = subprocess.Popen([*enter(machines.pids[name]), *words], env=dict(machines.environment(), SPATE_BIN=BIN, **(env or {})),
                                          stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE)
        machines.workers.append(self)

    def lines(self):
        with open(self.log) as f:
            return f.read().split("\n")[:-1]

    def goes_on(self):
        """Waits until it has done more. Returns how long that took, in s."""
        before, began = len(self.lines()), time.monotonic()
        wait_until(lambda: len(self.lines()) > before + 2 or self.child.poll() is not None, self.title + " goes on", PATIENT)
        check(self.child.poll() is None, "%s has ended: %s" % (self.title, self.child.stderr.read() if self.child.poll() is not None else ""))
        return time.monotonic() - began

    def end(self):
        """Returns the words of its last line."""
        self.child.stdin.close()
        said = self.child.stderr.read().decode(errors="replace")
        check(self.child.wait(timeout=PATIENT * PATIENCE) == 0, "%s failed: %s" % (self.title, said))
        return self.lines()[-1].split()
