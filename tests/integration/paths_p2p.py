#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Path p2p with a file in place of a device's memory. The code is the same except for the origin of the mapping.
tests/vm/p2p.py tests a real device."""
import os
import shutil
import tempfile

from cluster import BIN, Cluster, check, skip
from paths import Client, metric, moved, pattern, refuses_direct, set_shm_urls

MIB = 1 << 20
disk = tempfile.mkdtemp(prefix="spate-p2p-", dir=BIN)
memory = os.path.join(disk, "memory")
P2P = {"SPATE_FLOW_P2P_MEMORY": memory, "SPATE_FLOW_P2P_SIZE": "5 MiB", "SPATE_FLOW_READ_PATH": "p2p", "SPATE_FLOW_WRITE_PATH": "p2p"}


def explained(fs, *args):
    return fs.spate("explain", *args, "spate:/a").decode()


def fallbacks(fs, direction):
    return metric(fs, 2, "flow_fallbacks_total", path="p2p", direction=direction)


if refuses_direct(disk):
    shutil.rmtree(disk)
    skip("the build folder's file system has no O_DIRECT")
with open(memory, "wb") as f:
    f.truncate(8 * MIB)

with Cluster(io=1, folder=os.path.join(disk, "fs"), env=P2P) as fs:
    os.mkdir(fs.root)
    fs.up("--tcp-only")
    check("good for tests only" in fs.log(2), "it takes a file for a device")
    client = Client(fs)
    client.ok("create /a", "write 0 %d 1" % (4 * MIB), "check 0 %d 1" % (4 * MIB))
    for direction in ("read", "write"):
        check(moved(fs, 2, "p2p", direction) == 4 * MIB, "not by p2p: " + direction)
        check(metric(fs, 2, "flow_copied_bytes_total", path="p2p", direction=direction) == 4 * MIB, "one copy a byte, to or from the socket")
        check(moved(fs, 2, "direct", direction) + moved(fs, 2, "buffered", direction) + moved(fs, 2, "cached", direction) == 0, "another path")
        check(fallbacks(fs, direction) == 0, "a fall-back")
    with open(memory, "rb") as f:
        seen = f.read()
    check(any(pattern(1, at, 64) in seen for at in range(0, 4 * MIB, MIB)), "the data was never in that memory")
    table = [line.split() for line in fs.spate("stats", "2").decode().splitlines() if line.startswith("  p2p ")]
    check(table and table[0][-1] == "1.0", "no copies per byte in spate stats: %s" % table)
    check(": p2p (" in explained(fs) and ": p2p (" in explained(fs, "-w"), "explain says: " + explained(fs))
    # Ends that do not fill a block; an explicit request; a stream of small pieces, for which the path is useless.
    client.ok("write 1000 %d 2" % (2 * MIB + 333), "check 1000 %d 2" % (2 * MIB + 333), "check 0 1000 1", "path p2p", "check %d 99 1" % (2 * MIB + 1333))
    client.ok("sync", "close")
    client.end()
    fs.fsck()

    # A client over another network than tcp.
    fs.spate("down", "-q", "--dir", fs.dir)
    fs.env["SPATE_FLOW_BYPASS"] = "off"
    set_shm_urls(fs)
    fs.up()
    client = Client(fs)
    client.ok("open /a", "check 3000000 %d 1" % MIB)
    check(fallbacks(fs, "read") > 0 and moved(fs, 2, "direct", "read") == MIB, "a silent fall-back over shared memory")
    client.ok("path p2p")
    said = client.say("check 3000000 %d 1" % MIB)
    check("another network than tcp" in said, "not refused with the reason: " + said)
    client.ok("close")
    client.end()

    # If the memory cannot be mapped, the next best path serves the request, and that is counted and logged.
    fs.spate("down", "-q", "--dir", fs.dir)
    fs.env["SPATE_FLOW_P2P_MEMORY"] = "/sys/bus/pci/devices/none/p2pmem/allocate"
    fs.up()
    check("no memory for path p2p" in fs.log(2) and "devices/none" in fs.log(2), "no word of it in the log")
    check(": direct (no p2p path: " in explained(fs), "explain says: " + explained(fs))
    check(": refused (" in explained(fs, "--path", "p2p"), "explain says: " + explained(fs, "--path", "p2p"))
    before = fallbacks(fs, "read")
    client = Client(fs)
    client.ok("open /a", "check 3000000 %d 1" % MIB)
    check(fallbacks(fs, "read") == before + 1, "a silent fall-back")
    check(moved(fs, 2, "direct", "read") == MIB, "not by the next best path")
    client.ok("path p2p")
    said = client.say("check 3000000 %d 1" % MIB)
    check("no p2p path" in said and "devices/none" in said, "not refused with the reason: " + said)
    client.ok("close")
    client.end()
shutil.rmtree(disk, ignore_errors=True)
