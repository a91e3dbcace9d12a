#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In a file system that `spate up` makes, its user's programs come by shared memory and read and write large files by themselves; those of
another user come by TCP, as everybody does with --tcp-only."""
import json
import os
import shutil
import subprocess

from cluster import SPATE, Cluster, check

MIB = 1 << 20
NOBODY = 65534
DATA = os.urandom(32 * MIB)


def networks(fs, env=None):
    """The network by which each server was reached."""
    rows = json.loads(fs.spate("status", "--json", env=env))
    return [row["network"].split(":")[0] for row in rows]


def bypassed(fs):
    """Bytes that clients have moved by themselves, as they told the servers."""
    metrics = json.loads(fs.spate("stats", "--json"))["total"]["metrics"]
    return sum(m["value"] for m in metrics if m["name"] == "spate_flow_bytes_total" and m["labels"]["path"] == "bypass")


def as_it_is_made():
    with Cluster(io=2) as fs:
        fs.up()
        check(networks(fs) == ["shm"] * 3, "not by shared memory: %s" % networks(fs))
        shown = fs.spate("status").decode()
        check(shown.count("tcp://") == 3 and shown.count("by shared memory") == 3, "status shows:\n" + shown)
        fs.spate("put", "spate:/large", input=DATA)
        check(fs.spate("cat", "spate:/large") == DATA, "other data")
        check(bypassed(fs) > MIB, "the servers moved what was read")
        for how in ([], ["-w"]):
            told = fs.spate("explain", *how, "spate:/large").decode()
            check(": bypass (" in told, "explain says: " + told)
        added = json.loads(fs.spate("server", "add", "--json"))
        check(networks(fs) == ["shm"] * 4, "the server that was added, %s: %s" % (added, networks(fs)))
        fs.seen.update(fs.pids().values())
        said = fs.fails("up", "--dir", fs.dir, "--tcp-only")
        check("--tcp-only does not apply" in said, said)


def by_tcp_alone():
    with Cluster(io=1) as fs:
        fs.up("--tcp-only")
        check(networks(fs) == ["tcp"] * 2, "not by TCP alone: %s" % networks(fs))
        fs.spate("put", "spate:/large", input=DATA)
        check(fs.spate("cat", "spate:/large") == DATA, "other data")
        check(bypassed(fs) == 0, "a client moved data by itself")


def of_another_user():
    """Root uses what an ordinary user has started: it trusts no memory of that user."""
    with Cluster(io=1) as fs:
        os.chown(fs.root, NOBODY, NOBODY)

        def by_nobody(*words):
            subprocess.run([SPATE, *words, "-q", "--dir", fs.dir], check=True, user=NOBODY, group=NOBODY, extra_groups=[], env=fs.env)

        by_nobody("up", "--io", "1", "--port", str(fs.port))
        fs.seen.update(fs.pids().values())
        for words in (["put", "spate:/by-root"], ["put", "spate:/again"]):
            fs.spate("--fs", fs.dir, *words, input=DATA)
        check(networks(fs, env={"SPATE_FS": fs.dir}) == ["tcp"] * 2, "root came by a stranger's memory")
        check(fs.spate("--fs", fs.dir, "cat", "spate:/by-root") == DATA, "other data")
        by_nobody("down")
        shutil.rmtree(fs.dir)


as_it_is_made()
by_tcp_alone()
if os.geteuid() == 0:
    of_another_user()
