#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The meta server that leads stands still past its lease, another one takes over, and the old one goes on while a client that knows of
no other one talks to it. What was acknowledged is there, and the old one answers from no earlier state.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH)."""
import os
import shutil
import signal
import time

from cluster import Cluster, check, free_ports, skip
from mirror_meta import IOS, METAS, VOTES, metas, one_leads, up
from paused_primary import ARRIVES, ROUNDS, Register, goes_on


def leader(fs):
    one_leads(fs)
    return next(server for server, part in metas(fs).items() if part == "leads")


def names_come_after_the_take_over(fs, knows, other, turn):
    """The old primary does not know yet what was made and removed while it stood still."""
    early, new, late = ("/%s-%d" % (what, turn) for what in ("early", "new", "late"))
    knows.expect("made " + early, "make", early)
    old = leader(fs)
    knows.stop()
    fs.kill(old, sig=signal.SIGSTOP)
    other.expect("made " + new, "make", new)
    other.expect("removed " + early, "remove", early)
    for words in (("has", early), ("has", new), ("make", new), ("make", late)):
        knows.asks(*words)
    knows.go_on()
    time.sleep(ARRIVES)  # the requests lie in the paused server's socket by then
    goes_on(fs, old)
    for wanted in ("lacks " + early, "has " + new, "exists " + new, "made " + late):
        said = knows.answer()
        check(said == wanted, "%s instead of %s" % (said, wanted))
    other.expect("has " + late, "has", late)
    one_leads(fs)
    other.expect("has " + late, "has", late)


def a_name_waits_at_the_old_one(fs, knows, other, turn):
    """Two clients make the same name, one at the old primary and one at the new one: one of them is told that it has made it."""
    name = "/same-%d" % turn
    old = leader(fs)
    fs.kill(old, sig=signal.SIGSTOP)
    knows.asks("make", name)
    time.sleep(ARRIVES)  # the requests lie in the paused server's socket by then
    knows.stop()
    other.expect("made " + name, "make", name)
    goes_on(fs, old)
    one_leads(fs)
    knows.go_on()
    check(knows.answer() == "exists " + name, "both clients have made " + name)


def meta_server_is_paused(fs):
    up(fs, "--replicas", "2")
    knows, other = Register(fs), Register(fs)
    for turn in range(ROUNDS):
        names_come_after_the_take_over(fs, knows, other, turn)
        a_name_waits_at_the_old_one(fs, knows, other, turn)
    for register in (knows, other):
        register.end()
    made = sorted(["register"] + ["%s-%d" % (what, turn) for what in ("new", "late", "same") for turn in range(ROUNDS)])
    there = sorted(fs.spate("ls", "spate:/").decode().split())
    check(there == made, "made and there differ: %s" % sorted(set(there) ^ set(made)))
    fs.fsck()


if __name__ == "__main__":
    if not os.environ.get("SPATE_ETCD") and not shutil.which("etcd"):
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    with Cluster(io=METAS + IOS - 1) as cluster:
        cluster.port = free_ports(METAS + IOS + 2 * VOTES)
        meta_server_is_paused(cluster)
