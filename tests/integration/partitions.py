#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files with two and with three copies on five machines, made by `spate init` and `spate join`. Machines are cut off, cut
from each other, stopped and killed, while programs on a sixth one write and read. No call fails, no byte is lost, and
afterwards all copies are equal."""
import json
import os
import signal
import sys
import threading
import time

from cluster import check, wait_until
from machines import alone
from partition_machines import PATIENT, Networked, Worker

STORES = ["node1", "node2", "node3", "node4", "node5"]  # the meta server is on node1
CLIENT = "node6"
HERE = os.path.dirname(os.path.abspath(__file__))
AWAY = 5  # s that a machine does not reach the meta server: longer than each lease


def make(machines):
    for name in STORES:
        machines.type(name, "mkdir -p /srv/data")
    said = machines.type("node1", "spate init node1 --storage /srv/data")
    server, client = [line.split()[3] for line in said.splitlines() if line.startswith("  spate join ")]
    for name in STORES[1:]:
        machines.type(name, "spate join node1 %s --storage /srv/data" % server)
    machines.type(CLIENT, "spate join node1 %s" % client)
    for folder, copies in (("two", 2), ("three", 3)):
        machines.type(CLIENT, "spate mkdir spate:/%s; spate policy set spate:/%s replicas=%d" % (folder, folder, copies))


def pair(machines):
    """Returns two machines that hold copies of the same bytes: one whose server leads their group, and one other. Neither
    has the meta server."""
    told = json.loads(machines.type(CLIENT, "spate getstripe --json spate:/three/file"))[0]["slots"]
    for slot in told:
        first, *others = [STORES[max(0, target // 256 - 2)] for target in slot]
        others = [name for name in others if name != STORES[0]]
        if first != STORES[0] and others:
            return first, others[0]
    raise AssertionError("no group without node1 in its lead: %s" % told)


def one_is_cut_off(machines):
    name, _ = pair(machines)
    machines.link(name, "down")
    return lambda: machines.link(name, "up")


def a_backup_hears_nothing(machines):
    """What the leading server of a group sends to another one is lost. The other way all is well."""
    leads, backup = pair(machines)
    machines.drop(leads, backup)
    return lambda: machines.pass_on(leads, backup)


def a_backup_says_nothing(machines):
    leads, backup = pair(machines)
    machines.drop(backup, leads)
    return lambda: machines.pass_on(backup, leads)


def two_are_apart(machines):
    """Both reach the meta server, all others and the client."""
    leads, backup = pair(machines)
    machines.part([leads], [backup])
    return lambda: machines.part([leads], [backup], machines.pass_on)


def one_is_paused(machines):
    name, _ = pair(machines)
    machines.processes(name, signal.SIGSTOP)
    return lambda: machines.processes(name, signal.SIGCONT)


def one_does_not_reach_the_meta_server(machines):
    """What it sends there is lost, for longer than each lease."""
    name, _ = pair(machines)
    machines.drop(name, STORES[0])
    return lambda: machines.pass_on(name, STORES[0])


def disturbed(machines, workers, what):
    print(what.__name__, flush=True)
    give_back = what(machines)
    print("  goes on after %s s" % ["%.1f" % worker.goes_on() for worker in workers], flush=True)
    for worker in workers:
        worker.goes_on()
    if what is one_does_not_reach_the_meta_server:
        time.sleep(AWAY)  # nobody else notices
    else:
        wait_until(lambda: machines.degraded(CLIENT) > 0, "status says that copies are missing", PATIENT)
    for worker in workers:
        worker.goes_on()
    give_back()
    machines.whole(CLIENT, "node1")
    for worker in workers:
        worker.goes_on()


FAULTS = (one_is_cut_off, a_backup_hears_nothing, a_backup_says_nothing, two_are_apart, one_is_paused, one_does_not_reach_the_meta_server)


def start(machines, names):
    """Starts the servers of the machines in this order. None waits for the one before."""
    errors = []

    def up(name):
        done = machines.run(name, "spate up")
        if done.returncode != 0:
            errors.append("%s: %s" % (name, done.stdout))
    threads = [threading.Thread(target=up, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
        time.sleep(0.5)  # the order is that of the starts
    for thread in threads:
        thread.join()
    check(not errors, "spate up: %s" % errors)


def all_are_killed(machines, workers):
    print("all are killed", flush=True)
    for name in STORES:
        machines.processes(name, signal.SIGKILL)
    start(machines, ["node4", "node2", "node5", "node1", "node3"])
    for worker in workers:
        worker.goes_on()
    machines.whole(CLIENT, "node1")


def two_are_lost_one_after_the_other(machines, worker):
    """With three copies, two machines may be away."""
    print("two are lost, one after the other", flush=True)
    for name in ("node2", "node5"):
        machines.link(name, "down")
        print("  goes on after %.1f s" % worker.goes_on(), flush=True)
        worker.goes_on()
    for name in ("node2", "node5"):
        machines.link(name, "up")
    machines.whole(CLIENT, "node1")


def main():
    alone()
    with Networked([*STORES, CLIENT]) as machines:
        make(machines)
        program = [sys.executable, HERE + "/mirror_worker.py"]
        home = "/run/home/.local/share/spate"
        workers = [Worker(machines, CLIENT, folder, [*program, "/%s/file" % folder, str(seed), home]) for seed, folder in enumerate(("two", "three"))]
        for worker in workers:
            worker.goes_on()
        for what in FAULTS:
            disturbed(machines, workers, what)
        all_are_killed(machines, workers)
        two, three = workers
        check(two.end()[0] == "longest", "the program with two copies did not end in order")
        two_are_lost_one_after_the_other(machines, three)
        check(three.end()[0] == "longest", "the program with three copies did not end in order")
        machines.fsck("node1")
        machines.fsck("node1", "--contents")


main()
