#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tries to make two meta servers lead, and two io servers lead the same data. A network falls into two parts, each with meta servers, an
io server, members of etcd, and clients that write the same blocks and make the same names. The smaller part has a meta server
that does not lead, and then the one that leads. Whatever was acknowledged belongs to one history, and soon after the cut only one part acknowledges.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH). tests/breaks has faults that the test must notice."""
import os
import sys
import time

from cluster import check, skip
from machines import alone
from partition_machines import Networked, Worker
from partitions_meta import CLIENT, METAS, VOTERS, another_leads, etcd_program, healed, make, wait_for_leader
from rival import BLOCK, BLOCKS

LONELY = "node8"  # has the clients of the smaller part
EACH = 3  # clients in each part
APART = 13  # s: longer than the 10 s after which a member that makes no progress is left out
HERE = os.path.dirname(os.path.abspath(__file__))
# On a slow machine, too, no session of a cut off client expires, and no call of it fails.
SETTINGS = 'session_lease = "10 min"\n[client]\ndeadline = "10 min"\n'


class Rivals:
    """The clients of both parts."""

    def __init__(self, machines):
        machines.type(CLIENT, "spate mkdir spate:/names; head -c %d /dev/zero | spate put spate:/shared" % (BLOCKS * BLOCK))
        self.machines = machines
        self.connected = [self.start(CLIENT, number) for number in range(1, EACH + 1)]
        self.lonely = [self.start(LONELY, number) for number in range(EACH + 1, 2 * EACH + 1)]
        self.go_on(self.connected + self.lonely)

    def start(self, name, number, *more):
        return Worker(self.machines, name, "rival-%d" % number, [sys.executable, HERE + "/rival.py", self.machines.root + "/fs", str(number), str(number), *more])

    def go_on(self, rivals):
        for rival in rivals:
            rival.goes_on()

    def end(self):
        """Returns {number of the client: its history}, with that of one that has read every block afterwards."""
        for rival in self.connected + self.lonely:
            check(rival.end() == ["ended"], "%s did not end in order" % rival.title)
        reader = self.start(CLIENT, 2 * EACH + 1, "look")
        reader.end()
        return {number: history(worker.lines()) for number, worker in enumerate([*self.connected, *self.lonely, reader], 1)}


def apart(machines, rivals, with_leader):
    """Cuts the network into two parts for a while, and checks that only one of them is answered."""
    old = wait_for_leader(machines)
    lonely_meta = old if with_leader else next(name for name in METAS if name != old)
    part = [lonely_meta, VOTERS[0], LONELY]
    rest = [name for name in METAS + VOTERS + [CLIENT] if name not in part]
    whole = time.monotonic()
    # Its way to etcd goes first. The one that leads could otherwise make itself the only one that serves, and nobody could take its place.
    machines.part(part, [name for name in rest if name in VOTERS])
    machines.part(part, [name for name in rest if name not in VOTERS])
    cut = time.monotonic()
    if with_leader:
        another_leads(machines, old)
    while time.monotonic() < cut + APART:
        rivals.go_on(rivals.connected)
    isolated(*map(calls_of, (rivals.connected, rivals.lonely)), whole, cut, time.monotonic())
    machines.part(part, rest, machines.pass_on)
    healed(machines)
    rivals.go_on(rivals.connected + rivals.lonely)


def calls_of(rivals):
    return [call for rival in rivals for call in history(rival.lines())]


def history(lines):
    """Returns [(what, began, ended, words)]. A write that was not answered has no end."""
    calls, begun = [], None
    for line in lines:
        what, *words = line.split()
        if what == "begun":
            begun = ("write", float(words[0]), float("inf"), words[1:])
        elif what != "ended":
            begun = None if what == "write" else begun
            calls.append((what, float(words[0]), float(words[1]), words[2:]))
    return calls + ([begun] if begun else [])


def one_history(histories):
    """No read returns what had been overwritten before it began, nor what was never written."""
    writes = {}
    for number, calls in histories.items():
        for what, began, ended, words in calls:
            if what == "write":
                writes.setdefault(int(words[0]), {})[(number, int(words[1]))] = (began, ended)
    count = 0
    for number, calls in histories.items():
        for what, began, ended, words in calls:
            if what != "read":
                continue
            block, value = int(words[0]), (int(words[1]), int(words[2]))
            of_block = dict(writes.get(block, {}))
            of_block[(0, 0)] = (0, 0)
            check(value in of_block, "rival %d has read what nobody wrote: block %d, %s" % (number, block, value))
            check(of_block[value][0] <= ended, "rival %d has read block %d before it was written" % (number, block))
            later = [one for one, (b, e) in of_block.items() if e < began and b > of_block[value][1]]
            check(not later, "rival %d has read block %d as %s, which %s had overwritten" % (number, block, value, later))
            count += 1
    print("  %d reads fit" % count, flush=True)


def one_owner(machines, histories):
    """Each name was made once, and is there."""
    made = [words[0] for calls in histories.values() for what, _, _, words in calls if what == "name"]
    check(len(made) == len(set(made)), "names were made twice: %s" % sorted(name for name in set(made) if made.count(name) > 1)[:10])
    there = machines.type(CLIENT, "spate ls spate:/names").split()
    check(set(made) == set(there), "acknowledged and there differ: %s" % sorted(set(made) ^ set(there))[:10])


def isolated(connected, lonely, whole, cut, healing):
    """Once the others had gone on, the cut off clients got no answer."""
    for kinds in (("write", "read"), ("name", "exists")):
        went_on = [ended for what, began, ended, _ in connected if what in kinds and began > cut + 1 and ended < healing]
        check(went_on, "the connected clients did no %s" % kinds[0])
    changes = sorted(ended for what, _, ended, _ in connected if what == "name" and whole < ended < healing)
    check(changes, "the connected clients made no name")
    pause, led = max((after - before, after) for before, after in zip([whole] + changes, changes))  # then one leads that does so without the cut off ones
    alone_from = max(led, cut + 1)  # an answer may have been on its way
    late = [call for call in lonely if call[0] in ("name", "exists", "write") and alone_from < call[2] < healing]
    check(not late, "the cut off clients were answered after the others had gone on: %s" % late[:5])
    print("  names went on after %.1f s; the cut off clients were answered %d times after the cut" % (pause, sum(cut < call[2] < healing for call in lonely)), flush=True)


def main():
    if not etcd_program():
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    alone()
    with Networked([*METAS, *VOTERS, CLIENT, LONELY]) as machines:
        machines.variables["SPATE_FS"] = machines.root + "/fs"
        make(machines, SETTINGS)
        rivals = Rivals(machines)
        for with_leader in (False, True):
            apart(machines, rivals, with_leader)
        histories = rivals.end()
        one_history(histories)
        one_owner(machines, histories)
        machines.fsck(CLIENT)
        machines.fsck(CLIENT, "--contents")


main()
