# SPDX-License-Identifier: Apache-2.0
"""Runs in the guest of crash.py: the machines of a file system lose power while a program works, all at once or one alone.

  crash_files.py SEED NO_SYNC     NO_SYNC: the library of no_sync.c
"""
import json
import random
import sys

from crash_machines import Machines, Worker, check, spate
from crash_servers import IOS, SERVERS

# Over these, each server is the first and the last one to start, and each two start in both orders.
ORDERS = [SERVERS[i:] + SERVERS[:i] for i in range(len(SERVERS))]
TRIES, INCOMPLETE = 20, 8  # of fsck; its exit code when it could not check everything
UNEQUAL = {"unequal-contents", "unequal-copies"}


def crash(machines, name, seed, order, keep_some=False):
    """The machines of `order` lose power at once while a program works in folders `name`, and start again in this order.
    `keep_some`: their disks have written a part of what was not flushed. Returns what the program says."""
    rng = random.Random(seed)
    worker = Worker(name, seed)
    worker.does(rng.randrange(20, 60))
    worker.stop_and_tell(order)
    machines.kill(order)
    worker.go_on()
    lost = machines.lose_power(order, rng if keep_some else None)
    machines.boot(order)
    told = worker.result()
    print("%s: start in order %s; the disks lost %s writes; %d acknowledged changes are gone" % (name, order, lost, told["lost"]), flush=True)
    return told


def check_whole(machines):
    """Returns what fsck finds. The processor is so slow that a server may be left out again while fsck looks."""
    for _ in range(TRIES):
        machines.wait_until_whole()
        done = json.loads(spate("fsck", "--contents", "--json", codes=(0, 4, INCOMPLETE)))
        if done["summary"]["exit_code"] != INCOMPLETE:
            break
    return done


def check_all(machines, name, told, all_crashed):
    check(not told["problems"], "%s: %s" % (name, "\n".join(told["problems"])))
    done = check_whole(machines)
    check(done["summary"]["exit_code"] != INCOMPLETE, "fsck cannot check everything: %s" % done)
    # After a power failure of all machines, copies of bytes that nobody has synced may differ (docs/availability.md).
    unsynced = told["unsynced"] if all_crashed else []
    handles = {row["handle"]: row["path"] for row in json.loads(spate("stat", "--json", *["spate:" + path for path in unsynced]))} if unsynced else {}
    wrong = [found for found in done["findings"] if found["damage"] not in UNEQUAL or found["handle"] not in handles]
    check(not wrong, "%s: fsck finds %s" % (name, wrong))
    for path in {handles[found["handle"]] for found in done["findings"]}:
        print("%s: %s has unequal copies, of bytes that were not synced" % (name, path))
        spate("rm", path)


def power_failures(machines, seed):
    gone = 0
    for i, order in enumerate(ORDERS):
        told = crash(machines, "all%d" % i, seed + i, order, keep_some=i % 2 == 1)
        check_all(machines, "all%d" % i, told, True)
        gone += told["lost"]
    check(gone > 0, "nothing at all was lost: this test shows nothing")
    for number in SERVERS:
        told = crash(machines, "one%d" % number, seed + 10 + number, [number], keep_some=number == IOS[0])
        check_all(machines, "one%d" % number, told, False)


def lost_writes_are_found(machines, seed, no_sync):
    """The checks above find what is lost if io servers do not sync their datafiles."""
    machines.kill(SERVERS)
    machines.write_config("pool")  # by io_uring the library would not see the syncs
    machines.start(env={"LD_PRELOAD": no_sync, "SPATE_NO_SYNC": "/target/"})
    told = crash(machines, "unsynced", seed, SERVERS)
    found = [problem for problem in told["problems"] if "durable" in problem]
    check(found, "datafiles were not synced, and nothing is missing")
    print("unsynced: found: %s" % found[0], flush=True)


def main():
    seed, no_sync = int(sys.argv[1]), sys.argv[2]
    machines = Machines()
    machines.start("--format", "--serve")
    for folder, copies in (("once", 1), ("twice", 2)):
        spate("mkdir", "spate:/" + folder)
        spate("policy", "set", "spate:/" + folder, "replicas=%d" % copies)
    print("a file system of %d machines" % len(SERVERS), flush=True)
    try:
        power_failures(machines, seed)
        lost_writes_are_found(machines, seed, no_sync)
    except BaseException:
        print(machines.logs(), flush=True)
        raise
    print("VM-CRASH")


main()
