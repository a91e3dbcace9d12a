#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running file system that nobody uses takes no processor time: its servers sleep until a request comes. They also
sleep between requests, unless network.server_busy_poll tells them to poll for a while, or meta.busy_poll tells several meta servers so (this
needs etcd: SPATE_ETCD names it, else the PATH)."""
import os
import shutil
import time

from cluster import SANITIZED, Cluster, check, free_ports, skip, wait_until

if SANITIZED:
    skip("a sanitizer wakes a thread of its own")

SECONDS = 2
# Allowance for the servers' own timers and for a little influence of the machine.
MOST_WAKEUPS = 10 * SECONDS


def wakeups(pid):
    """Returns how often the threads of a process gave up the processor voluntarily, which is once for each wakeup."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, thread)) as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))
    return total


def ran_through(pid):
    """Returns ticks of processor time: a thread that spins never gives up the processor voluntarily."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def at_rest(fs):
    """Returns whether the servers did almost nothing for a while."""
    before = {server: (wakeups(pid), ran_through(pid)) for server, pid in fs.pids().items()}
    time.sleep(SECONDS)  # the observed time
    rest = True
    for server, pid in fs.pids().items():
        woken, ticks = wakeups(pid) - before[server][0], ran_through(pid) - before[server][1]
        if woken > MOST_WAKEUPS or ticks > SECONDS * os.sysconf("SC_CLK_TCK") // 4:
            print("server %d was woken %d times and took %d ticks in %d s" % (server, woken, ticks, SECONDS), flush=True)
            rest = False
    return rest


with Cluster(io=2) as fs:
    fs.up()
    fs.spate("put", "spate:/file", input=os.urandom(3 << 20))
    check(len(fs.spate("cat", "spate:/file")) == 3 << 20, "not served")
    wait_until(lambda: at_rest(fs), "all servers rest, once the session has ended and the store is synced", 30)


def sleeps_in_a_ping(fs):
    """Returns how often the meta server went to sleep while it was asked again and again."""
    pid = fs.pids()[1]
    before = wakeups(pid)
    fs.spate("ping")
    return wakeups(pid) - before


def sleeps(attempts, metas=1, **more):
    with Cluster(io=1, **more) as fs:
        if metas == 1:
            fs.up()
        else:
            fs.port = free_ports(metas + 1 + 2 * 3)  # with three members of etcd
            fs.up("--meta", str(metas))
        return min(sleeps_in_a_ping(fs) for _ in range(attempts))


def may_poll(asleep, **more):
    """Whether the meta server polls in one of several runs: on a busy machine the next request comes after polling has ended."""
    return any(sleeps(10, **more) < asleep / 2 for _ in range(4))


asleep = sleeps(1)
check(may_poll(asleep, env={"SPATE_NETWORK_SERVER_BUSY_POLL": "10 ms"}), "a server sleeps although server_busy_poll is set")
if os.environ.get("SPATE_ETCD") or shutil.which("etcd"):
    check(may_poll(asleep, metas=2, env={"SPATE_META_BUSY_POLL": "10 ms"}), "one of two meta servers sleeps although meta.busy_poll is set")
