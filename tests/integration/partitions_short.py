#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packets that a leading server sends to another one are lost, while the other way all is well: of the io server that leads a
group of mirrored files, then of the meta server that leads. Programs go on, and nothing that was acknowledged is lost.
partitions.py and partitions_meta.py do more, and take longer.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH), and without root."""
import json
import os
import sys

import partitions_meta
from cluster import check, skip, wait_until
from machines import alone
from partition_machines import PATIENT, Networked, Worker
from partitions_meta import CLIENT, METAS, VOTERS, one_way

HERE = os.path.dirname(os.path.abspath(__file__))


def copies_of(machines, path):
    """Returns the machines of the servers that hold the copies of the file's first strip. The first one leads."""
    slots = json.loads(machines.type(CLIENT, "spate getstripe --json spate:" + path))[0]["slots"]
    return [METAS[target // 256 - len(METAS) - 1] for target in slots[0]]


def io_one_way(machines):
    """What the leading server of a group sends to the other member is lost: the group goes on without it."""
    writer = Worker(machines, CLIENT, "writer", [sys.executable, HERE + "/mirror_worker.py", "/file", "1", machines.root + "/fs"])
    writer.goes_on()
    leads, deaf = copies_of(machines, "/file")
    machines.drop(leads, deaf)
    print("io: the file is written on after %.1f s" % writer.goes_on(), flush=True)
    wait_until(lambda: machines.degraded(CLIENT) > 0, "status says that copies are missing", PATIENT)
    writer.goes_on()
    machines.pass_on(leads, deaf)
    machines.whole(CLIENT, CLIENT)
    writer.goes_on()
    check(writer.end()[0] == "longest", "the program did not end in order")


def main():
    if not partitions_meta.etcd_program():
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
    alone()
    with Networked([*METAS, *VOTERS, CLIENT]) as machines:
        machines.variables["SPATE_FS"] = machines.root + "/fs"
        partitions_meta.make(machines)
        io_one_way(machines)
        one_way(machines)
        machines.fsck(CLIENT)
        machines.fsck(CLIENT, "--contents")


main()
