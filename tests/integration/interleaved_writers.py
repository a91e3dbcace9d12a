#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that write interleaved pieces of 1 byte to 1 MiB of one file at the same time: every byte is exact, also when a server
is killed meanwhile."""
import os
import random
import subprocess
import time

from cluster import BIN, Cluster, check

BYTES = 24 << 20
WRITER = os.path.join(BIN, "interleaved_writer")


def start(fs, path, seed, writers, who):
    return subprocess.Popen([WRITER, fs.dir + "/spate.toml", path, str(seed), str(writers), str(who), str(BYTES)], env=fs.env, stderr=subprocess.PIPE)


def ends_well(process, what):
    said = process.communicate(timeout=60)[1].decode()
    check(process.returncode == 0, "%s: exit %d, %s" % (what, process.returncode, said))


def round_of(fs, path, writers, meanwhile=None):
    seed = random.randrange(1 << 32)
    at_work = [start(fs, path, seed, writers, who) for who in range(writers)]
    if meanwhile:
        meanwhile()
    for who, process in enumerate(at_work):
        ends_well(process, "seed %d, writer %d" % (seed, who))
    ends_well(start(fs, path, seed, writers, writers), "seed %d, comparison" % seed)


def kill_a_server():
    time.sleep(0.05)  # the writers run on; the moment of the kill is left to chance
    fs.kill(3)
    time.sleep(0.1)  # the writers meet the dead server before it is back
    fs.up()


with Cluster(io=3) as fs:
    fs.up()
    for name, strip in (("wide", "1M"), ("narrow", "4K")):
        fs.spate("setstripe", "--strip", strip, "spate:/" + name)
        path = "/" + name
        for writers, meanwhile in ((2, None), (4, kill_a_server)):
            round_of(fs, path, writers, meanwhile)
