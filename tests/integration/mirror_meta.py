#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mirrored files with several meta servers: the meta server that leads is killed together with an io server, while programs write
and read. No call fails, no byte is lost, and all copies are brought up to date.

Skipped where there is no etcd (SPATE_ETCD names it, else the PATH)."""
import json
import os
import shutil

from cluster import Cluster, check, free_ports, skip, wait_until
from mirror import LONGEST_PAUSE, Worker, wait_until_whole

METAS, IOS, VOTES = 3, 3, 3


def up(fs, *more):
    fs.spate("up", "-q", "--dir", fs.dir, "--meta", str(METAS), "--io", str(IOS), "--port", str(fs.port), *more)
    fs.seen.update(fs.pids().values())


def metas(fs):
    """server -> what it is in its group"""
    return {row["server"]: row["group"].split()[0] for row in json.loads(fs.run("status", "--json").stdout or b"[]") if "group" in row}


def one_leads(fs):
    wait_until(lambda: sorted(metas(fs).values()) == ["backup", "backup", "leads"], "one meta server leads and two are backups", 60)


def both_kinds_of_server_are_lost_together(fs):
    up(fs, "--replicas", "2")
    workers = [Worker(fs, 1, False), Worker(fs, 2, True)]
    for worker in workers:
        worker.goes_on()
    for io in range(METAS + 1, METAS + IOS + 1):
        one_leads(fs)
        leader = next(server for server, part in metas(fs).items() if part == "leads")
        fs.kill(leader, io)
        for worker in workers:
            worker.goes_on()
        up(fs)
        wait_until_whole(fs)
        for worker in workers:
            worker.goes_on()
    pauses = [worker.end() for worker in workers]
    print("longest calls: %s s" % pauses)
    check(max(pauses) <= LONGEST_PAUSE, "a call took %.2f s" % max(pauses))
    fs.fsck()


if __name__ == "__main__":
    if not os.environ.get("SPATE_ETCD") and not shutil.which("etcd"):
        skip("no etcd")
    with Cluster(io=METAS + IOS - 1) as cluster:
        cluster.port = free_ports(METAS + IOS + 2 * VOTES)
        both_kinds_of_server_are_lost_together(cluster)
