#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers that listen on libfabric and on tcp: clients take the first network that works, data is intact, and counters
show the network."""
import os

from cluster import BIN, Cluster, check, free_ports, skip

if not os.path.exists(os.path.join(BIN, "libspate-bmi-ofi.so")):
    skip("built without libfabric-dev")


def counter(fs, server, name):
    text = fs.spate("stats", "--prometheus", str(server)).decode()
    found = [line for line in text.splitlines() if line.startswith("spate_bmi_" + name) and '"ofi"' in line]
    check(len(found) == 1, "no counter %s in:\n%s" % (name, text[:2000]))
    return int(float(found[0].split()[-1]))


data = os.urandom(5_000_000)
with Cluster(io=2) as fs:
    fs.up()
    fs.spate("put", "spate:/before", input=data)
    fs.spate("down", "-q", "--dir", fs.dir)

    other = free_ports(3)
    ports = iter(range(other, other + 3))
    fs.set_urls(lambda tcp: ["ofi+tcp://127.0.0.1:%d" % next(ports), tcp])
    fs.up()
    check(fs.spate("get", "spate:/before") == data, "what was written over tcp reads differently over libfabric")
    fs.spate("put", "spate:/after", input=data)
    check(fs.spate("get", "spate:/after") == data, "other data than were written")
    check(counter(fs, 2, "read_bytes") > 0, "server 2 read nothing out of the client's memory")
    told = fs.spate("ping").decode()
    check("the first of its 2 addresses" in told, "ping does not say why: " + told)
    check("ofi+tcp://" in told, "ping does not show the network: " + told)
    fs.spate("down", "-q", "--dir", fs.dir)

    # All three networks at once: clients on the same host take shared memory, the others another network.
    names = iter(range(3))
    ports = iter(range(other, other + 3))
    fs.set_urls(lambda tcp: ["shm://%s/%d" % (fs.root, next(names)), "ofi+tcp://127.0.0.1:%d" % next(ports), tcp])
    fs.up()
    check(fs.spate("get", "spate:/after") == data, "over shared memory")
    told = fs.spate("ping").decode()
    check("the first of its 3 addresses, on this host" in told and "shm://" in told, "shared memory was not taken: " + told)
    # Its socket goes away: the next requests fail over, and ping names the reason.
    for server in range(3):
        os.unlink("%s/%d" % (fs.root, server))
    check(fs.spate("get", "spate:/after") == data, "over the second network")
    told = fs.spate("ping").decode()
    check("number 2 of its 3 addresses" in told and "failed: " in told, "ping does not say what failed: " + told)
    fs.spate("down", "-q", "--dir", fs.dir)

    # This machine lacks the hardware: the server says so and does not start.
    fs.set_urls(lambda tcp: ["ofi+nosuch://127.0.0.1:%d" % (other + 2), tcp])
    said = fs.run("up", "-q", "--dir", fs.dir)
    check(said.returncode != 0 and "nosuch" in said.stderr + fs.logs(), "no word of the provider: " + said.stderr)
    fs.set_urls(lambda tcp: [tcp])
    fs.up()
    check(fs.spate("get", "spate:/after") == data, "over tcp again")
