# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest of rdma.py: a file system whose servers listen on RDMA alone. SPATE_RDMA: the device's address."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests", "integration"))
from cluster import Cluster, check, free_ports, make_tree, same_tree

with Cluster(io=2) as fs:
    fs.up()
    fs.spate("down", "-q", "--dir", fs.dir)
    ports = iter(range(free_ports(6), 65536))
    fs.set_urls(lambda tcp: ["ofi+verbs://%s:%d" % (os.environ["SPATE_RDMA"], next(ports))])
    fs.up()
    check("ofi+verbs://" in fs.spate("ping", "--timeout", "30000").decode(), "ping does not show the network")

    there, back = fs.root + "/there", fs.root + "/back"
    make_tree(there, files=40, large=2)
    fs.spate("cp", "-r", there, "spate:/tree", timeout=300)
    fs.spate("cp", "-r", "spate:/tree", back, timeout=300)
    same_tree(there, back)
    print("tree is the same")

    # A server dies with registered memory and connections, and comes back at its address.
    fs.kill(2)
    fs.up()
    fs.spate("cp", "-r", "spate:/tree", back + "2", timeout=300)
    same_tree(there, back + "2")
    fs.fsck()
    stats = fs.spate("stats", "--prometheus", "2").decode()
    for line in stats.splitlines():
        if line.startswith("spate_bmi_") and '"ofi"' in line:
            print(line)
