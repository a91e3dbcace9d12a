#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Path direct on a real disk. When forced, counters and kernel show that it is used, data is exact to the byte, and it
is coherent with programs on the server. Where it is not available, it is refused or counted as a fall-back."""
import os
import re
import shutil
import signal
import subprocess
import tempfile

from cluster import BIN, Cluster, check, skip
from paths import Client, expect_calls, metric, moved, pattern, refuses_direct

MIB = 1 << 20
disk = tempfile.mkdtemp(prefix="spate-paths-", dir=BIN)


def direct_descriptors(pid):
    """Returns the datafiles that the process has open with O_DIRECT."""
    found = 0
    for fd in os.listdir("/proc/%d/fdinfo" % pid):
        try:
            with open("/proc/%d/fdinfo/%s" % (pid, fd)) as f:
                flags = next(int(line.split()[1], 8) for line in f if line.startswith("flags:"))
            found += bool(flags & os.O_DIRECT) and "/d/" in os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except (OSError, StopIteration):
            pass
    return found


def submitted(pid, work):
    """Returns how many operations each io_uring_enter of a process submits while `work` runs, or None without a tracer."""
    out = os.path.join(disk, "rings")
    tracer = shutil.which("strace") and subprocess.Popen(["strace", "-f", "-e", "trace=io_uring_enter", "-o", out, "-p", str(pid)], stderr=subprocess.PIPE)
    if not tracer or "attached" not in tracer.stderr.readline().decode():
        work()
        return None
    work()
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=20)
    with open(out) as f:
        return [int(count) for count in re.findall(r"io_uring_enter\(\d+, (\d+),", f.read())]


if refuses_direct(disk):
    shutil.rmtree(disk)
    skip("the build folder's file system has no O_DIRECT")

with Cluster(io=1, folder=disk) as fs:
    fs.up("--tcp-only")
    pid = fs.pids()[2]
    client = Client(fs)
    client.ok("create /a", "path direct")

    # Whole blocks: no data goes through the page cache.
    client.ok("write 0 %d 1" % (4 * MIB))
    check(moved(fs, 2, "direct", "write") == 4 * MIB, "not written directly")
    check(moved(fs, 2, "buffered", "write") == 0, "something was buffered")
    check(direct_descriptors(pid) == 1, "no datafile is open with O_DIRECT")
    client.ok("check 0 %d 1" % (4 * MIB))
    check(moved(fs, 2, "direct", "read") == 4 * MIB, "not read directly")
    check(metric(fs, 2, "flow_copied_bytes_total", path="direct", direction="read") == 4 * MIB, "one copy a byte, to the socket")

    # A request makes as many device operations as its part of the file needs, and submits them together.
    together = submitted(pid, lambda: client.ok("check 0 %d 1" % MIB))
    check(together is None or max(together) > 1, "a read of 1 MiB is handed to the kernel piece by piece: %s" % together)
    # The ring uses registered memory: it is pinned once by io_uring_register, not by each request.
    def registered():
        return [metric(fs, 2, "flow_registered_bytes_total", direction=direction) for direction in ("write", "read")]
    before = registered()
    again = ("write 0 %d 1" % (4 * MIB), "check 0 %d 1" % (4 * MIB))
    expect_calls(pid, lambda: client.ok(*again), ("io_uring_enter",), ("io_uring_register", "pread64", "pwrite64"), "registered memory")
    check(registered() == [count + 4 * MIB for count in before], "not all by registered memory: %s, then %s" % (before, registered()))

    # Ends that do not fill a block, and reads of any shape.
    client.ok("write 1000 %d 2" % (2 * MIB + 333), "check 1000 %d 2" % (2 * MIB + 333), "check 0 1000 1",
              "check %d 99 1" % (2 * MIB + 1333))
    check(moved(fs, 2, "buffered", "write") == 3096 + 1333, "the ends went elsewhere")
    client.ok("sync")

    # The same bytes are on the disk: a local program reads and writes the datafile, but not at the same time.
    datafile, = fs.datafiles(2)
    with open(datafile, "r+b") as f:
        local = f.read(MIB)
        check(len(local) == MIB, "a local program sees a shorter file")
        f.seek(3 * MIB + 10)
        old = f.read(5000)
        f.seek(3 * MIB + 10)
        f.write(bytes(reversed(old)))  # in the page cache, not on the disk yet
    check(client.say("check %d 5000 1" % (3 * MIB + 10)).startswith("differs"), "a remote direct read missed a local write")
    with open(datafile, "r+b") as f:
        f.seek(3 * MIB + 10)
        f.write(old)
    client.ok("check %d 5000 1" % (3 * MIB + 10))
    client.ok("write %d 8192 3" % (3 * MIB))
    with open(datafile, "rb") as f:  # those pages were in the cache
        f.seek(3 * MIB)
        seen = f.read(8192)
    client.ok("path cached", "check %d 8192 3" % (3 * MIB), "path direct")
    check(seen == pattern(3, 3 * MIB, 8192), "a local program sees what was in the cache before a remote direct write")

    told = fs.spate("explain", "--path", "direct", "spate:/a").decode()
    check(": direct (" in told, "explain says: " + told)

    # Two clients write unaligned neighbours by different paths at the same time.
    other = Client(fs)
    other.ok("open /a", "path buffered")
    size = 300_001
    for step in range(12):
        mine, its = (client, other) if step % 2 == 0 else (other, client)
        mine.send("write %d %d %d" % (7 + step * size, size, 50 + step))
        its.send("write %d %d %d" % (7 + (step + 20) * size, size, 80 + step))
        check(mine.answer() == "ok" and its.answer() == "ok", "a write failed")
    for pair in range(6):
        a, b = 2 * pair, 2 * pair + 1
        client.send("write %d %d %d" % (7 + a * size, size, 150 + a))
        other.send("write %d %d %d" % (7 + b * size, size, 150 + b))
        check(client.answer() == "ok" and other.answer() == "ok", "a write failed")
    for who in (client, other):
        for step in range(12):
            who.ok("check %d %d %d" % (7 + step * size, size, 150 + step))
    check(client.say("size") == other.say("size"), "two sizes")
    client.ok("close")
    other.ok("close")
    client.end()
    other.end()
    fs.fsck()

    # The policy chooses it for files that are too large for the cache and not in it.
    fs.spate("down", "-q", "--dir", fs.dir)
    fs.env["SPATE_FLOW_DIRECT_FROM"] = "1 MiB"
    fs.up("--tcp-only")
    client = Client(fs)
    client.ok("create /b", "write 0 %d 9" % (2 * MIB))
    check(moved(fs, 2, "direct", "write") == 2 * MIB, "a large file was written through the cache")
    client.ok("sync", "check 0 %d 9" % (2 * MIB))
    check(moved(fs, 2, "direct", "read") == 2 * MIB, "a large file was read through the cache")
    client.ok("path buffered", "check 0 %d 9" % (2 * MIB), "path auto", "check 0 %d 9" % (2 * MIB))
    check(moved(fs, 2, "direct", "read") == 2 * MIB, "what is in the cache was read from the disk")
    client.ok("close")
    client.end()
    del fs.env["SPATE_FLOW_DIRECT_FROM"]
shutil.rmtree(disk, ignore_errors=True)

# Storage in memory has no device: an explicit request is refused, and a choice of the policy is counted as a fall-back.
if os.access("/dev/shm", os.W_OK):
    with Cluster(io=1, env={"SPATE_FLOW_DIRECT_FROM": "4 KiB"}) as fs:
        fs.up("--tcp-only")
        client = Client(fs)
        client.ok("create /c", "write 0 %d 1" % MIB)
        check(metric(fs, 2, "flow_fallbacks_total", path="direct", direction="write") == 1, "a silent fall-back")
        check("path direct is not available" in fs.log(2), "no word of it in the log")
        told = fs.spate("explain", "--path", "direct", "spate:/c").decode()
        check(": refused (" in told and "memory" in told, "explain says: " + told)
        told = fs.spate("explain", "-w", "spate:/c").decode()
        check(": buffered (direct would suit it" in told, "explain says: " + told)
        table = [line.split() for line in fs.spate("stats", "2").decode().splitlines() if line.startswith("  buffered ")]
        check(table and table[0][-1] == "2.0", "no copies per byte in spate stats: %s" % table)
        client.ok("path direct")
        for line in ("check 0 %d 1" % MIB, "write 0 %d 1" % MIB):
            said = client.say(line)
            check("no direct path" in said and "memory" in said, "not refused with the reason: " + said)
        client.ok("close")
        client.end()
