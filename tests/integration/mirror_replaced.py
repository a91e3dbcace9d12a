#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mirrored files: an io server stays away. Another one receives its copies, and the next server that dies costs nothing either. The
one that comes back in the end gives its space back."""
import json
import os

from cluster import Cluster, check, wait_until
from mirror import health, restart, wait_until_whole

AFTER = "3s"
FILES = {"spate:/f%d" % i: os.urandom(200000 + i) for i in range(12)}


def expect_content(fs, when):
    for path, content in FILES.items():
        check(fs.run("cat", path, timeout=120).stdout == content, "%s: %s cannot be read" % (when, path))


def copies_at(fs, server):
    """How many datafiles the server is to hold, by the layouts of all files. A file is shorter than a strip, so only its
    first slot has datafiles."""
    rows = json.loads(fs.spate("getstripe", "--json", *FILES))
    check(all(row["strip_bytes"] > len(FILES[path]) for row, path in zip(rows, FILES)), "a file has more than one strip: %s" % rows)
    return sum(target // 256 == server for row in rows for target in row["slots"][0])


def main(fs):
    fs.env["SPATE_FLOW_REBUILD_AFTER"] = AFTER
    fs.up("--replicas", "2")
    for path, content in FILES.items():
        fs.spate("put", path, input=content)
    wait_until_whole(fs)
    gone, next_one = 4, 3
    check(fs.datafiles(gone), "server %d has no copy" % gone)
    fs.kill(gone)
    wait_until(lambda: health(fs)["degraded"] > 0, "status says that copies are missing")
    wait_until_whole(fs)  # although it stays away
    check("another target takes the place" in fs.logs(), "no server says that it has replaced another one")
    expect_content(fs, "with two servers of three")
    fs.kill(next_one)
    expect_content(fs, "with one server of three")
    restart(fs)
    wait_until_whole(fs)
    # If server 3 is back late, server 4 has taken some of its places meanwhile.
    wait_until(lambda: len(fs.datafiles(gone)) == copies_at(fs, gone), "server %d gives its space back" % gone, 60)
    expect_content(fs, "with all servers")
    fs.fsck()
    fs.fsck("--contents")


if __name__ == "__main__":
    with Cluster(io=3) as cluster:
        main(cluster)
