#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All servers are killed at once and start again in every order, while programs write and read. Each call waits, and none fails; what
was acknowledged is there.

  restart_orders.py [--all]     --all: all 24 orders, instead of 8
"""
import itertools
import signal
import socket
import subprocess
import sys

from cluster import SPATED, Cluster, check, wait_until
from mirror import Worker, wait_until_whole

SERVERS = [1, 2, 3, 4]  # 1 is the meta server
TURNS = [SERVERS[i:] + SERVERS[:i] for i in range(len(SERVERS))]
# Among these, each server is the first one and the last one, and each two start in both orders, directly and with others between.
SOME = TURNS + [turn[::-1] for turn in TURNS]


class Servers:
    """The servers of a cluster as children of this process, which starts them one by one."""

    def __init__(self, fs):
        self.fs, self.children = fs, {}

    def start(self, order):
        for number in order:
            with open("%s/log/server-%d.log" % (self.fs.dir, number), "ab") as log:
                child = subprocess.Popen([SPATED, "--config", self.fs.dir + "/spate.toml", "--server", str(number)], env=self.fs.env,
                                         stdout=log, stderr=log)
            self.children[number] = child
            self.fs.seen.add(child.pid)
            wait_until(lambda: self.listens(number), "server %d listens" % number)

    def listens(self, number):
        check(self.children[number].poll() is None, "server %d has ended" % number)
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.fs.port + number - 1)) == 0

    def kill(self):
        for child in self.children.values():
            child.send_signal(signal.SIGKILL)
        for child in self.children.values():
            child.wait()

    def end(self):
        for child in self.children.values():
            child.terminate()
        for child in self.children.values():
            check(child.wait(timeout=60) == 0, "a server did not end in order")


def main():
    orders = [list(order) for order in itertools.permutations(SERVERS)] if sys.argv[1:] == ["--all"] else SOME
    with Cluster(io=3) as fs:
        fs.up("--replicas", "2")
        twice = Worker(fs, 1, False)
        twice.goes_on()
        fs.spate("policy", "set", "spate:/", "replicas=1")
        once = Worker(fs, 2, True)
        once.goes_on()
        fs.kill(*SERVERS)
        servers = Servers(fs)
        for order in orders:
            servers.start(order)
            for worker in (twice, once):
                worker.goes_on()
            wait_until_whole(fs)
            fs.fsck()
            print("in order %s" % order, flush=True)
            servers.kill()
        servers.start(SERVERS)
        for worker in (twice, once):
            worker.end()
        wait_until_whole(fs)
        fs.fsck("--contents")
        servers.end()


main()
