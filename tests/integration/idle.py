#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A running file system that nobody uses takes no processor time: its servers sleep until a request comes. They also
sleep between requests, unless network.server_busy_poll tells them to poll for a while."""
import os
import time

from cluster import SANITIZED, Cluster, check, skip, wait_until

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


def sleeps(attempts, **more):
    with Cluster(io=1, **more) as fs:
        fs.up()
        return min(sleeps_in_a_ping(fs) for _ in range(attempts))


# Take the best of several runs: on a busy machine the next request comes after polling has ended.
asleep, polling = sleeps(1), sleeps(10, env={"SPATE_NETWORK_SERVER_BUSY_POLL": "10 ms"})
check(polling < asleep / 2, "with server_busy_poll the server slept %d times, without %d" % (polling, asleep))
