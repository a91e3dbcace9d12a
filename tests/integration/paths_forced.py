#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each data path for reads and writes, large and small, chosen by the request or by the configuration: counters and
system calls show that this path alone is used, or the request is refused. Every fall-back is counted and logged."""
import os
import re
import shutil
import tempfile

from cluster import BIN, Cluster, check, skip, wait_until
from paths import PLAIN, Client, expect_calls, forget_pages, metric, refuses_direct, up_by_shm

MIB = 1 << 20
SIZES = (MIB, 4096)
PATHS = ("inline", "buffered", "cached", "direct", "bypass", "p2p")
FALLBACKS = "flow_fallbacks_total"
EVERY_CALL = PLAIN["read"] + PLAIN["write"] + ("sendfile", "splice", "io_uring_enter")
# The server makes at least one of these system calls for a path, and none of the others in EVERY_CALL.
CALLS = {("buffered", "read"): PLAIN["read"], ("buffered", "write"): PLAIN["write"], ("cached", "read"): ("sendfile",),
         ("direct", "read"): ("io_uring_enter",), ("direct", "write"): ("io_uring_enter",),
         ("p2p", "read"): ("io_uring_enter",), ("p2p", "write"): ("io_uring_enter",),
         ("bypass", "read"): (), ("bypass", "write"): ()}


def counted(fs, what="flow_bytes_total"):
    """Returns {(path, direction): count} of the io server."""
    text = fs.spate("stats", "--prometheus", "2").decode()
    found = re.findall(r'^spate_%s\{[^}]*?direction="(\w+)"[^}]*?path="(\w+)"[^}]*\} (\d+)' % what, text, re.M)
    found = found or [(d, p, n) for p, d, n in re.findall(r'^spate_%s\{[^}]*?path="(\w+)"[^}]*?direction="(\w+)"[^}]*\} (\d+)' % what, text, re.M)]
    check(len(found) == 2 * len(PATHS), "not all paths are counted: %s" % found)
    return {(path, direction): int(count) for direction, path, count in found}


def goes_by(fs, client, path, direction, size, words, times=1):
    """Checks that the request succeeds and takes this path only."""
    what = "%s by %s of %d bytes" % (direction, path, size)  # bypass: the client reports it when it gives the lease back
    before, fallen = counted(fs), counted(fs, FALLBACKS)
    client.ok(*[words] * times)
    after = counted(fs)
    moved = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    check(moved == ({} if path == "bypass" else {(path, direction): times * size}), "%s: the counters say %s" % (what, moved))
    check(counted(fs, FALLBACKS) == fallen, what + ": counted as a fall-back")


def by_the_request(fs, pid, tcp, shm):
    for (path, direction), some in CALLS.items():
        client = shm if path == "bypass" else tcp
        verb = "write" if direction == "write" else "check"
        for size in SIZES:
            words = "%s 0 %d 1" % (verb, size)
            client.ok("path " + path, words)
            goes_by(fs, client, path, direction, size, words)
            none = tuple(call for call in EVERY_CALL if call not in some)
            expect_calls(pid, lambda: client.ok(words), some, none, "server, %s by %s of %d" % (direction, path, size))
            if path == "bypass":
                expect_calls(client.process.pid, lambda: client.ok(words), PLAIN[direction], ("sendmsg", "sendto", "io_uring_enter"),
                             "client, %s of %d" % (direction, size))
            if path == "cached" and size == MIB:
                forget(fs)
                expect_calls(pid, lambda: client.ok(words), ("fadvise64",), (), "what is not in memory is not brought there before it is sent")
                expect_calls(pid, lambda: client.ok(words), (), ("fadvise64",), "what is there is brought again")
    bypassed = int(shm.say("bypassed"))
    check(bypassed >= 4 * sum(SIZES), "only %d bytes past the server" % bypassed)
    before = counted(fs)
    shm.ok("close")
    after = counted(fs)
    check(sum(after[("bypass", direction)] - before[("bypass", direction)] for direction in ("read", "write")) == bypassed, "not told to the server")


def forget(fs):
    """Drops the datafiles from the page cache."""
    for name in fs.datafiles(2):
        with open(name, "r+b") as f:
            forget_pages(f)


def refused(fs, tcp):
    """Checks that an explicit request, large or small, gets an error with the reason, and that no data moves."""
    before = counted(fs)
    for path, verb, why in (("cached", "write", "for reads"), ("bypass", "check", "not connected to this server by shm"), ("bypass", "write", "by shm")):
        tcp.ok("path " + path)
        for size in SIZES:
            said = tcp.say("%s 0 %d 1" % (verb, size))
            check(why in said, "%s by %s of %d: %s" % (verb, path, size, said))
    check(counted(fs) == before, "something was moved by another path")
    for words, said in ((("--path", "bypass"), "refused (the client is not connected"), (("-w", "--path", "cached"), "refused (")):
        told = fs.spate("explain", *words, "spate:/a", env={"SPATE_CONFIG": fs.dir + "/tcp.toml", "SPATE_FS": fs.dir + "/tcp.toml"}).decode()
        check(said in told, "explain %s: %s" % (" ".join(words), told))


def by_the_configuration(fs):
    """No client asks for a path, and a client that could go past the server does not."""
    for reads, writes in (("buffered", "buffered"), ("cached", "direct"), ("direct", "buffered")):
        fs.spate("down", "-q", "--dir", fs.dir)
        fs.env.update(SPATE_FLOW_READ_PATH=reads, SPATE_FLOW_WRITE_PATH=writes)
        fs.up()
        pid = fs.pids()[2]
        for config in ("tcp.toml", "spate.toml"):
            client = Client(fs, config)
            client.ok("open /a", "write 0 %d 1" % MIB)
            for direction, path in (("write", writes), ("read", reads)):
                words = "%s 0 %d 1" % ("write" if direction == "write" else "check", MIB)
                goes_by(fs, client, path, direction, MIB, words, times=5)  # enough to make a lease worthwhile
                if config == "tcp.toml":
                    some = CALLS[(path, direction)]
                    expect_calls(pid, lambda: client.ok(words), some, tuple(call for call in EVERY_CALL if call not in some), "%s by %s" % (direction, path))
                # So little data goes in the request or reply itself, and the fall-back is counted.
                key = (path, direction)
                before, fallen = counted(fs), counted(fs, FALLBACKS)[key]
                client.ok("%s 0 4096 1" % ("write" if direction == "write" else "check"))
                check(counted(fs)[("inline", direction)] - before[("inline", direction)] == 4096, "not in the message")
                check(counted(fs, FALLBACKS)[key] == fallen + 1, "a silent fall-back")
            check(client.say("bypassed") == "0", "past the server, which was to go by " + reads)
            client.ok("close")
            client.end()
        check("is not taken for data that fit a request or reply" in fs.log(2), "no word of it in the log")
        told = fs.spate("explain", "spate:/a").decode()
        check(": %s (" % reads in told and "flow.read_path is " + reads in told, "explain says: " + told)
    fs.spate("down", "-q", "--dir", fs.dir)
    fs.env["SPATE_FLOW_WRITE_PATH"] = "cached"
    said = fs.fails("up", "-q", "--dir", fs.dir)
    check("write_path" in said, "a path that writes have not: " + said)
    del fs.env["SPATE_FLOW_READ_PATH"], fs.env["SPATE_FLOW_WRITE_PATH"]


def beside_a_writer(fs):
    """While a client writes by itself through the page cache, no policy lets others go past the page cache. An explicit
    request does, and ends that client's lease first."""
    fs.env["SPATE_FLOW_DIRECT_FROM"] = "1 MiB"
    fs.up()
    shm, tcp = Client(fs), Client(fs, "tcp.toml")
    tcp.ok("open /a", "write 0 %d 1" % (2 * MIB), "sync")
    forget(fs)
    goes_by(fs, tcp, "direct", "read", MIB, "check 0 %d 1" % MIB)
    shm.ok("open /a", "path bypass", "write 0 4096 1")
    check(metric(fs, 2, "server_io_leases") == 1, "no lease")
    tcp.ok("sync")
    forget(fs)
    goes_by(fs, tcp, "cached", "read", MIB, "check %d %d 1" % (MIB, MIB))
    check(metric(fs, 2, "server_io_leases") == 1, "the lease was recalled for a read that can do without")
    tcp.ok("path direct")
    goes_by(fs, tcp, "direct", "write", MIB, "write 0 %d 1" % MIB)
    check(metric(fs, 2, "server_io_leases") == 0, "a lease to write beside a direct write")
    # The lease ends, too, when its holder itself writes past the page cache.
    wait_until(lambda: shm.say("write 0 4096 1") == "ok", "a lease: for two seconds after a quarrel nobody gets one")
    check(metric(fs, 2, "server_io_leases") == 1, "no lease")
    shm.ok("path direct")
    goes_by(fs, shm, "direct", "write", MIB, "write 0 %d 1" % MIB)
    check(metric(fs, 2, "server_io_leases") == 0, "the writer keeps its own lease beside a direct write")
    for client in (shm, tcp):
        client.ok("path auto", "check 0 %d 1" % (2 * MIB), "close")
        client.end()


def main():
    disk = tempfile.mkdtemp(prefix="spate-forced-", dir=BIN)
    if refuses_direct(disk):
        shutil.rmtree(disk)
        skip("the build folder's file system has no O_DIRECT")
    memory = os.path.join(disk, "memory")
    with open(memory, "wb") as f:
        f.truncate(8 * MIB)
    env = {"SPATE_FLOW_P2P_MEMORY": memory, "SPATE_FLOW_P2P_SIZE": "5 MiB", "SPATE_FLOW_BYPASS": "write", "SPATE_CLIENT_BYPASS": "write"}
    with Cluster(io=1, folder=os.path.join(disk, "fs"), env=env) as fs:
        os.mkdir(fs.root)
        up_by_shm(fs)
        tcp, shm = Client(fs, "tcp.toml"), Client(fs)
        tcp.ok("create /a", "write 0 %d 1" % MIB, "sync")
        shm.ok("open /a")
        by_the_request(fs, fs.pids()[2], tcp, shm)
        refused(fs, tcp)
        tcp.ok("close")
        tcp.end()
        shm.end()
        by_the_configuration(fs)
        beside_a_writer(fs)
        fs.fsck()
    shutil.rmtree(disk, ignore_errors=True)


main()
