#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The io server that leads the group of a mirrored file stands still past its lease, another one takes over, and the old one goes on
while a client that knows of no other one talks to it. Nothing that was acknowledged is lost, and nothing is read that was overwritten
before the read began."""
import json
import os
import signal
import subprocess
import sys
import time

from cluster import PATIENCE, Cluster, check, stands_still, wait_until
from mirror import health, wait_until_whole

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 2
ARRIVES = 0.3  # s in which a request reaches a server of this machine; if it takes longer, the test only finds less


class Register:
    """A client of its own process, which does one call at a time. It can be stopped, so that it learns nothing meanwhile."""

    def __init__(self, fs):
        self.child = subprocess.Popen([sys.executable, HERE + "/register_worker.py", fs.dir, "/register"], env=fs.env, text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        fs.seen.add(self.child.pid)
        check(self.answer() == "ready", "the client does not begin")

    def asks(self, *words):
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()

    def answer(self):
        return self.child.stdout.readline().strip()

    def did(self, *words):
        self.asks(*words)
        return self.answer()

    def expect(self, answer, *words):
        said = self.did(*words)
        check(said == answer, "%s: %s instead of %s" % (" ".join(map(str, words)), said, answer))

    def stop(self):
        os.kill(self.child.pid, signal.SIGSTOP)
        wait_until(lambda: stands_still(self.child.pid), "the client stands still")

    def go_on(self):
        os.kill(self.child.pid, signal.SIGCONT)

    def end(self):
        self.child.stdin.close()
        check(self.child.wait(timeout=60 * PATIENCE) == 0, "a client failed")


def primary_of_the_register(fs):
    return json.loads(fs.spate("getstripe", "--json", "spate:/register"))[0]["slots"][0][0] // 256


def goes_on(fs, server):
    fs.kill(server, sig=signal.SIGCONT)


def calls_come_after_the_take_over(fs, knows, other, number):
    """`knows` reads and writes at the old primary, of which it knows nothing new, when that one goes on."""
    knows.expect("w %d" % number, "w", number)
    other.expect("r %d" % number, "r")
    old = primary_of_the_register(fs)
    knows.stop()
    fs.kill(old, sig=signal.SIGSTOP)
    other.expect("w %d" % (number + 1), "w", number + 1)
    knows.asks("r")
    knows.asks("w", number + 2)
    knows.asks("r")
    knows.go_on()
    time.sleep(ARRIVES)  # the requests lie in the paused server's socket by then
    goes_on(fs, old)
    for wanted in ("r %d" % (number + 1), "w %d" % (number + 2), "r %d" % (number + 2)):
        said = knows.answer()
        check(said == wanted, "%s instead of %s, after %d was written" % (said, wanted, number + 1))
    other.expect("r %d" % (number + 2), "r")
    wait_until_whole(fs)
    for register in (knows, other):
        register.expect("r %d" % (number + 2), "r")


def a_write_waits_at_the_old_one(fs, knows, other, number):
    """A write lies in the socket of the old primary. Another client's write is acknowledged before the old one goes on."""
    knows.expect("w %d" % number, "w", number)
    old = primary_of_the_register(fs)
    fs.kill(old, sig=signal.SIGSTOP)
    knows.asks("w", number + 1)
    time.sleep(ARRIVES)  # the requests lie in the paused server's socket by then
    knows.stop()
    other.expect("w %d" % (number + 2), "w", number + 2)
    goes_on(fs, old)
    looks = []

    def whole():
        looks.append(other.did("r"))
        return health(fs)["groups"] > 0 and health(fs)["degraded"] == 0
    wait_until(whole, "all groups are whole again", 60)
    check(set(looks) == {"r %d" % (number + 2)}, "the late write was carried out: %s" % looks)
    knows.go_on()
    check(knows.answer() == "w %d" % (number + 1), "the write was not repeated")
    for register in (knows, other):
        register.expect("r %d" % (number + 1), "r")


def io_server_is_paused(fs):
    fs.up("--replicas", "2")
    knows, other = Register(fs), Register(fs)
    for turn in range(ROUNDS):
        calls_come_after_the_take_over(fs, knows, other, 10 * turn + 1)
        a_write_waits_at_the_old_one(fs, knows, other, 10 * turn + 5)
    for register in (knows, other):
        register.end()
    fs.fsck()
    fs.fsck("--contents")


if __name__ == "__main__":
    with Cluster(io=3) as cluster:
        io_server_is_paused(cluster)
