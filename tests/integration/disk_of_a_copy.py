#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk of one io server of mirrored files is full, or fails, while the others are sound. A full one: a clear error, equal copies, and new
room can be used. One that fails: reads and writes go on with the other copy."""
import os
import subprocess
import sys

from cluster import Cluster, check, wait_until
from disk_full import SmallDisk, free
from mirror import Worker, health, wait_until_whole

BAD = 3  # the io server with the full or failing disk
MIB = 1 << 20


def expect_content(fs, files, when):
    for path, content in files.items():
        check(fs.run("cat", path, timeout=120).stdout == content, "%s: %s has other bytes" % (when, path))


def status_names(fs, server):
    """Whether `spate status` says which server lacks groups."""
    return "server %d (" % server in fs.run("status").stdout.decode()


def fill(fs):
    """Adds files until one does not fit."""
    files = {}
    while len(files) < 60:
        path, content = "spate:/f%d" % len(files), os.urandom(5 * MIB)
        done = fs.run("put", path, input=content)
        if done.returncode != 0:
            break
        files[path] = content
    check(done.returncode == 1 and "no space left on device" in done.stderr, "full: exit %d, said: %s" % (done.returncode, done.stderr))
    check(len(files) >= 4, "only %d files fit" % len(files))
    return files, path


def full_disk(fs):
    """The target of the server BAD lies on a small disk."""
    fs.up("--replicas", "2")
    fs.spate("down", "-q")
    target = fs.target(BAD)
    os.rename(target, target + ".kept")
    with SmallDisk(target):
        subprocess.run(["cp", "-a", target + ".kept/.", target], check=True)
        fs.up()
        fill_one_copy(fs, target)
        fs.spate("down", "-q")


def expect_equal_copies(fs, when):
    """All servers count, and have the same bytes."""
    state = health(fs)
    check(state["groups"] > 0 and state["degraded"] == 0, "%s: a group lacks a copy: %s" % (when, state))
    for server in range(2, 2 + fs.io):
        check("is left out" not in fs.log(server), "%s: a server has been left out: %s" % (when, fs.log(server)))
    fs.fsck("--contents")


def fill_one_copy(fs, target):
    files, half_written = fill(fs)
    check(free(target) < 8 * MIB, "the disk is not full: %d bytes are free" % free(target))
    check("the device is full" in fs.log(BAD), "the log does not say so:\n" + fs.log(BAD))
    expect_content(fs, files, "when one copy's disk is full")
    expect_equal_copies(fs, "after a write that did not fit")
    fs.run("rm", half_written)  # a part of the file that did not fit may be there
    for turn in range(2):
        gone = [files.popitem()[0] for _ in range(2)]
        before = free(target)
        fs.spate("rm", *gone)
        wait_until(lambda: free(target) > before + 2 * MIB, "the space of removed files comes back")
        path, content = "spate:/again%d" % turn, os.urandom(5 * MIB)
        fs.spate("put", path, input=content)
        files[path] = content
    expect_content(fs, files, "after room was made")
    wait_until_whole(fs)
    fs.fsck("--contents")
    for server in (2, BAD, 4):
        fs.kill(server)
        expect_content(fs, files, "without server %d" % server)
        fs.up()
        wait_until_whole(fs)


class Faults:
    """Orders what fails on the disk of the server BAD."""

    def __init__(self, fs, library):
        self.file = fs.root + "/faults"
        fs.env.update(LD_PRELOAD=library, SPATE_TEST_FAILING=fs.target(BAD), SPATE_TEST_FAULTS=self.file)

    def order(self, kinds):
        with open(self.file + ".new", "w") as f:
            f.write(kinds)
        os.rename(self.file + ".new", self.file)


def failing_disk(fs, library):
    faults = Faults(fs, library)
    fs.up("--replicas", "2", "--trove", "pool", "--tcp-only")
    for name in ("LD_PRELOAD", "SPATE_TEST_FAILING"):
        del fs.env[name]
    files = {"spate:/f%d" % i: os.urandom(3 * MIB + i) for i in range(4)}
    for path, content in files.items():
        fs.spate("put", path, input=content)
    workers = [Worker(fs, 1, False), Worker(fs, 2, False)]
    for worker in workers:
        worker.goes_on()
    for kinds in ("write", "read", "read write"):
        faults.order(kinds)
        expect_content(fs, files, "while the disk of server %d fails to %s" % (BAD, kinds))
        for worker in workers:
            worker.goes_on()
        if "write" in kinds:
            wait_until(lambda: health(fs)["degraded"] > 0, "status says that copies are missing")
            wait_until(lambda: status_names(fs, BAD), "status names the server")
        path = "spate:/" + kinds.replace(" ", "-")
        files[path] = os.urandom(2 * MIB)
        fs.spate("put", path, input=files[path])
        faults.order("none")
        wait_until_whole(fs)
        for worker in workers:
            worker.goes_on()
    print("longest calls: %s s" % [worker.end() for worker in workers])
    expect_content(fs, files, "after the disk is sound again")
    fs.fsck()
    fs.fsck("--contents")


if __name__ == "__main__":
    if sys.argv[1:]:
        with Cluster(io=3) as cluster:
            failing_disk(cluster, sys.argv[1])
    else:
        with Cluster(io=3) as cluster:
            full_disk(cluster)
