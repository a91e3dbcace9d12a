#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Path bypass: a client on the server's machine reads and writes datafiles by itself, under leases. The server makes no
system call for it; leases are recalled, and a silent holder's late write goes nowhere."""
import os
import select
import signal

from cluster import Cluster, check, wait_until
from paths import Client, metric, moved, up_by_shm

MIB = 1 << 20
BUSY_AT = 192  # in a lease's page, the word that counts operations under way: src/model/lease_words.h


def server_work(pid):
    """Returns processor time in ticks, and the bytes that the process has read or written by system calls."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    with open("/proc/%d/io" % pid) as f:
        io = dict(line.split(": ") for line in f.read().splitlines())
    return int(fields[11]) + int(fields[12]), int(io["syscr"]) + int(io["syscw"]), int(io["rchar"]) + int(io["wchar"])


def stopped(pid):
    with open("/proc/%d/stat" % pid) as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def leases(fs, what):
    return metric(fs, 2, "server_io_leases" + what)


def late_writer(fs, path, offset, size, seed):
    """Stops a client in the middle of a write under its lease."""
    client = Client(fs)
    client.ok("open " + path)
    wait_until(lambda: client.say("lease") == "ok", "a lease: for two seconds after a quarrel nobody gets one")
    client.send("stop %d %d %d" % (offset, size, seed))
    wait_until(lambda: stopped(client.process.pid), "the client stops itself")
    return client


def came_back_without(holder, client, what):
    """After the server is back, another client reads the bytes that the server had. The stopped write has no effect
    when it ends late, and its holder gets an error."""
    client.ok("check 0 50000 1")
    os.kill(holder.process.pid, signal.SIGCONT)
    check(holder.answer() == "fenced", what + ": the holder does not know that it was fenced")
    client.ok("check 0 50000 1")
    holder.end()


def busy_holder(fs, path):
    """Stops a client in the middle of a library write under a lease. Returns the client and the lease's page."""
    client = Client(fs)
    client.ok("open " + path, "path bypass")
    size = 48 * MIB
    wait_until(lambda: client.say("write 0 4096 1") == "ok", "a lease: for two seconds after a quarrel nobody gets one")
    name, = [os.path.join(fs.target(2), "leases", one) for one in os.listdir(fs.target(2) + "/leases")]
    page = open(name, "rb", buffering=0)
    for _ in range(100):
        client.send("write %d %d 77" % (2 * MIB, size))
        while os.pread(page.fileno(), 4, BUSY_AT) == bytes(4) and not select.select([client.process.stdout], [], [], 0)[0]:
            pass
        os.kill(client.process.pid, signal.SIGSTOP)
        wait_until(lambda: stopped(client.process.pid), "the client stops")
        if os.pread(page.fileno(), 4, BUSY_AT) != bytes(4):
            return client, page
        os.kill(client.process.pid, signal.SIGCONT)  # too late: it had ended
        check(client.answer() == "ok", "a write failed")
    raise AssertionError("never stopped in the middle of a write")


environment = {"SPATE_FLOW_BYPASS": "write", "SPATE_CLIENT_BYPASS": "write", "SPATE_FLOW_RECALL_DEADLINE": "200 ms"}
with Cluster(io=1, env=environment) as fs:
    up_by_shm(fs)
    pid = fs.pids()[2]

    # Forced bypass: all data goes past the server, which does nothing at all meanwhile.
    client = Client(fs)
    client.ok("create /a", "write 0 %d 1" % MIB, "path bypass", "write 0 %d 2" % MIB, "check 0 %d 2" % MIB)
    before = server_work(pid)
    for _ in range(64):
        client.ok("check 0 %d 2" % MIB)
    for _ in range(16):
        client.ok("write %d %d 3" % (2 * MIB, MIB))
    after = server_work(pid)
    check(after[2] - before[2] < 100_000 and after[1] - before[1] < 50, "the server moved something: %s %s" % (before, after))
    check(after[0] - before[0] <= 1, "the server worked: %s %s" % (before, after))
    check(int(client.say("bypassed")) >= 80 * MIB, "the client did not")
    # The server knows size and content while the lease is held.
    other = Client(fs)
    other.ok("open /a", "path cached", "check %d %d 3" % (2 * MIB, MIB))
    check(other.say("size") == str(3 * MIB), "another client sees another size: " + other.say("size"))
    client.ok("sync")
    check(client.say("size") == str(3 * MIB), "the size")
    # It knows the times, too: a write of the holder counts as a change for everybody who asks meanwhile.
    seen = fs.spate("stat", "--json", "spate:/a")
    check(fs.spate("stat", "--json", "spate:/a") == seen, "two answers, and nothing was changed between them")
    client.ok("write 0 4096 2")
    check(fs.spate("stat", "--json", "spate:/a") != seen, "a write under a lease is no change for others: %s" % seen)
    client.ok("close")
    check(leases(fs, "") == 0, "a lease outlived its file")
    check(moved(fs, 2, "bypass", "write") == 17 * MIB + 4096 and moved(fs, 2, "bypass", "read") == 65 * MIB, "not told to the server")

    told = fs.spate("explain", "-w", "spate:/a").decode()
    check(": bypass (" in told, "explain says: " + told)

    # The first forced operation requests the lease. Later forced operations wait for it.
    client.ok("open /a", "path bypass", "together 0 %d 2" % MIB, "close")

    # The policy chooses bypass when it is worth it. A second client's write recalls the lease, and both see exact data.
    client.ok("open /a", "write 0 %d 4" % MIB, "write %d 100000 4" % MIB)
    check(int(client.say("bypassed")) > 0, "not by itself")
    check(leases(fs, "") >= 1, "no lease")
    recalled = leases(fs, "_recalled_total")
    other.ok("path buffered", "write 1000 70001 5")
    check(leases(fs, "_recalled_total") > recalled, "nothing was recalled")
    client.ok("check 1000 70001 5", "check 0 1000 4", "check 71001 4000 4")
    bypassed = int(client.say("bypassed"))
    client.ok("write 0 %d 6" % MIB)
    client.ok("check 0 %d 6" % MIB)
    other.ok("check 0 %d 6" % MIB)
    # Two clients write unaligned neighbours by different paths at the same time.
    size = 100_003
    for step in range(20):
        client.ok("path " + ("auto" if step % 3 else "buffered"))
        client.send("write %d %d %d" % (5 + 2 * step * size, size, 30 + step))
        other.send("write %d %d %d" % (5 + (2 * step + 1) * size, size, 60 + step))
        check(client.answer() == "ok" and other.answer() == "ok", "a write failed")
    for step in range(20):
        for who in (client, other):
            who.ok("check %d %d %d" % (5 + 2 * step * size, size, 30 + step),
                   "check %d %d %d" % (5 + (2 * step + 1) * size, size, 60 + step))
    client.ok("path auto")

    # Truncation, punching and removal while a lease is held.
    client.ok("path bypass")
    wait_until(lambda: client.say("write 0 %d 7" % MIB) == "ok", "a lease after the quarrel")
    other.ok("truncate 5000")
    check(client.say("size") == "5000", "not cut")
    client.ok("path auto", "check 0 5000 7")
    other.ok("punch 1000 1000")
    check(client.say("check 1000 10 7") == "differs at 1000", "not punched")
    check(client.say("size") == "5000" and other.say("size") == "5000", "the size")
    client.ok("close")
    other.ok("close", "open /a")
    check(other.say("size") == "5000", "the size once nobody writes any more")
    fs.fsck()

    # A holder stops in the middle of a write. It is fenced, and its late write has no effect.
    client.ok("create /b", "path buffered", "write 0 %d 1" % MIB)
    holder = late_writer(fs, "/b", 0, 50_000, 99)
    client.ok("write %d 4096 2" % (MIB // 2))
    check(leases(fs, "_fenced_total") == 1, "not fenced")
    os.kill(holder.process.pid, signal.SIGCONT)
    check(holder.answer() == "fenced", "the holder does not know")
    client.ok("check 0 50000 1", "check %d 4096 2" % (MIB // 2), "path cached", "check 0 50000 1")
    check(client.say("size") == str(MIB), "the late write moved the end")
    holder.end()

    # The same with a holder that works through the library: its write fails even if it wrote some bytes.
    holder, words = busy_holder(fs, "/b")
    client.ok("path buffered", "write %d 4096 2" % (MIB // 2))
    check(leases(fs, "_fenced_total") == 2, "not fenced")
    os.kill(holder.process.pid, signal.SIGCONT)
    said = holder.answer()
    check("fenced this client" in said, "the late write ended with: " + said)
    client.ok("check 0 50000 1", "check %d 4096 2" % (MIB // 2))
    holder.ok("path auto", "check 0 50000 1", "close")
    holder.end()

    # The same across a kill and restart of the server: the new process finds the lease.
    holder = late_writer(fs, "/b", 100, 50_000, 98)
    fs.kill(2)
    fs.up()
    came_back_without(holder, client, "/b after a kill")

    # The same across an orderly stop, which does not wait for the holder for ever.
    holder = late_writer(fs, "/b", 100, 50_000, 96)
    fs.spate("down", "-q", "--dir", fs.dir)
    fs.up()
    came_back_without(holder, client, "/b after a stop")

    # A killed holder delays others no longer than its operations last.
    holder = late_writer(fs, "/b", 0, 10, 97)
    holder.process.kill()
    holder.process.wait()
    client.ok("path auto", "write 0 4096 11", "check 0 4096 11")
    client.ok("close")
    other.end()
    client.end()
    fs.fsck()
    check(not os.listdir(fs.target(2) + "/leases"), "lease files are left")

    # If the configuration forbids bypass, an explicit request is refused, and other requests go through the server.
    fs.spate("down", "-q", "--dir", fs.dir)
    fs.env["SPATE_FLOW_BYPASS"] = "read"
    fs.up()
    client = Client(fs)
    client.ok("open /b", "path bypass")
    said = client.say("write 0 %d 1" % MIB)
    check("read only" in said, "not refused: " + said)
    check(client.say("check 0 4096 11") == "ok" and int(client.say("bypassed")) == 4096, "not read by itself")
    client.ok("close")
    client.end()
    fs.spate("down", "-q", "--dir", fs.dir)
    fs.env["SPATE_FLOW_BYPASS"] = "off"
    fs.up()
    client = Client(fs)
    client.ok("open /b", "path bypass")
    check("flow.bypass is off" in client.say("check 0 4096 11"), "not refused")
    client.ok("path auto", "check 0 4096 11")
    check(int(client.say("bypassed")) == 0, "by itself all the same")
    client.ok("close")
    client.end()
