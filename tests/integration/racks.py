#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Racks: copies of data are in different racks, also after another server has taken the place of a lost one; a server that is added
tells its rack. Names that no rack can have are refused."""
import json
import re

from cluster import Cluster, check, wait_until
from mirror import wait_until_whole

RACKS = {2: "r1", 3: "r1", 4: "r2", 5: "r2"}


def rows(fs):
    return [row for row in json.loads(fs.run("status", "--json").stdout or b"[]") if "roles" in row]


def racks(fs):
    return {row["server"]: row.get("rack") for row in rows(fs)}


def set_racks(fs, rack_of):
    path = fs.dir + "/spate.toml"
    with open(path) as f:
        text = f.read()
    text, count = re.subn(r"(?m)^id = (\d+)\n", lambda m: m.group(0) + ('rack = "%s"\n' % rack_of[int(m.group(1))] if int(m.group(1)) in rack_of else ""), text)
    check(count == fs.io + 1, "%d servers found in spate.toml" % count)
    with open(path, "w") as f:
        f.write(text)
    return path


def copies_are_apart(fs, names):
    for told in json.loads(fs.spate("getstripe", "--json", *names)):
        for slot in told["slots"]:
            check(len(set(racks(fs)[target // 256] for target in slot)) == 2, "two copies are in one rack: %s" % told)


def racks_keep_copies_apart(fs):
    fs.up("--replicas", "2", "--set", "flow.rebuild_after=3s")
    fs.spate("down", "-q", "--dir", fs.dir)
    path = set_racks(fs, RACKS)
    fs.up()
    check(racks(fs) == {1: None, **RACKS}, "status shows the racks: %s" % racks(fs))
    check(", rack r2" in fs.spate("status").decode(), "status shows the racks")
    names = ["spate:/file-%d" % i for i in range(8)]
    for name in names:
        fs.spate("put", name, input=b"x" * 3000000)
    copies_are_apart(fs, names)
    wait_until_whole(fs)
    fs.kill(3)
    gone = lambda: all(target // 256 != 3 for told in json.loads(fs.spate("getstripe", "--json", *names)) for slot in told["slots"] for target in slot)
    wait_until(gone, "other servers have the copies of server 3", 60)
    wait_until_whole(fs)
    copies_are_apart(fs, names)
    fs.spate("up", "-q", "--dir", fs.dir)
    told = fs.fails("server", "add", "--rack", "a rack")
    check("--rack takes 1 to 63 letters" in told, told)
    fs.spate("server", "add", "-q", "--rack", "r3")
    check(racks(fs)[6] == "r3", "the added server tells its rack: %s" % racks(fs))
    fs.io += 1
    fs.seen.update(fs.pids().values())
    with open(path) as f:
        text = f.read()
    for bad in ("a/b", "x" * 64, "ö", " "):
        with open(path, "w") as f:
            f.write(text.replace('rack = "r1"', 'rack = "%s"' % bad, 1))
        told = fs.run("config", "check", path)
        check(told.returncode != 0 and "rack" in (told.stdout.decode() + told.stderr), "a rack %r: %s" % (bad, told.stderr))
    with open(path, "w") as f:
        f.write(text)


if __name__ == "__main__":
    with Cluster(io=4) as cluster:
        racks_keep_copies_apart(cluster)
