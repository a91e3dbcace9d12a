# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest of p2p.py: a file system on the NVMe disk, with the other device's memory. SPATE_P2P: switch or flat."""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests", "integration"))
from cluster import Cluster, check
from paths import Client, metric, moved

MIB = 1 << 20
where = os.environ["SPATE_P2P"]
devices = glob.glob("/sys/bus/pci/devices/*/p2pmem/allocate")
check(len(devices) == 1, "devices with memory for others: %s" % devices)
print("peer memory", devices[0])


def published():
    """Returns how many bytes of the device's memory are unused."""
    with open(os.path.join(os.path.dirname(devices[0]), "available")) as f:
        return int(f.read())


def in_page_cache(file):
    said = subprocess.run(["fincore", "-n", "-b", "-o", "RES", file], stdout=subprocess.PIPE, check=True, text=True).stdout
    return int(said.split()[0])


def copies(fs, path, direction):
    return metric(fs, 2, "flow_copied_bytes_total", path=path, direction=direction)


free_before = published()
env = {"SPATE_FLOW_P2P_MEMORY": devices[0], "SPATE_FLOW_READ_PATH": "p2p", "SPATE_FLOW_WRITE_PATH": "p2p", "SPATE_CLIENT_DEADLINE": "120 s"}
with Cluster(io=1, folder="/tmp/disk/fs", env=env) as fs:
    os.mkdir(fs.root)
    fs.up()
    taken = free_before - published()
    check(taken > 14 * MIB, "the server has taken %d bytes of the device's memory" % taken)
    client = Client(fs)
    # Whole blocks, and then a piece whose ends do not fill a block.
    client.ok("create /a", "write 0 %d 1" % (4 * MIB), "sync")
    subprocess.run(["sh", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"], check=True)
    client.ok("check 0 %d 1" % (4 * MIB))
    datafile, = fs.datafiles(2)
    used = "p2p" if where == "switch" else "direct"
    for direction in ("read", "write"):
        check(moved(fs, 2, used, direction) == 4 * MIB, "%s not by %s" % (direction, used))
        check(copies(fs, used, direction) == 4 * MIB, "%d copies" % copies(fs, used, direction))
        for other in {"p2p", "direct", "cached", "buffered"} - {used}:
            check(moved(fs, 2, other, direction) == 0, "%s by %s" % (direction, other))
    check(in_page_cache(datafile) == 0, "it went through the page cache: %d bytes are there" % in_page_cache(datafile))
    told = fs.spate("explain", "spate:/a").decode()
    fallbacks = [metric(fs, 2, "flow_fallbacks_total", path="p2p", direction=one) for one in ("read", "write")]
    if where == "switch":
        check(fallbacks == [0, 0], "fall-backs: %s" % fallbacks)
        check(": p2p (" in told, "explain says: " + told)
        check("path p2p is available" in fs.log(2), "not in the log")
        client.ok("path p2p", "check 0 %d 1" % (4 * MIB))
    else:
        check(min(fallbacks) > 0, "a silent fall-back: %s" % fallbacks)
        check(": direct (no p2p path: " in told and "EREMOTEIO" in told, "explain says: " + told)
        check("path p2p is not available" in fs.log(2) and "EREMOTEIO" in fs.log(2), "not in the log")
        client.ok("path p2p")
        said = client.say("check 0 %d 1" % (4 * MIB))
        check("EREMOTEIO" in said, "not refused with the reason: " + said)
        client.ok("path auto")
    client.ok("write 1000 %d 2" % (2 * MIB + 333), "check 1000 %d 2" % (2 * MIB + 333), "check 0 1000 1", "check %d 99 1" % (2 * MIB + 1333))
    # A separate program, which knows nothing of this path, checks that the disk holds the bytes that were sent.
    with open(datafile, "rb") as f:
        local = f.read()
    client.ok("path buffered", "check 1000 %d 2" % (2 * MIB + 333))
    check(len(local) == 4 * MIB, "the datafile has %d bytes" % len(local))
    client.ok("close")
    client.end()
    fs.fsck()
    print(fs.spate("stats", "2").decode())
check(published() == free_before, "memory of the device was not given back")
print("VM-P2P " + where)
