#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An io server is added by `spate server add` while a mount, a program with the preload library, an NBD export and a program of
the C API run. Nothing is restarted, all go on, and their new files use it."""
import ctypes
import fcntl
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/nbd"))
from cluster import BIN, SPATE, Cluster, check, wait_until
from common import Export, wire

NEW = 4
DATA = os.urandom(300_000)
C_PROGRAM = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
fs = ctypes.c_void_p()
def must(code):
    if code < 0: raise OSError(-code, os.strerror(-code))
    return code
must(library.spate_connect(ctypes.byref(fs), None, None))
for line in sys.stdin:
    name, size = line.split()
    data = b"c" * int(size)
    file = ctypes.c_void_p()
    must(library.spate_open(fs, name.encode(), os.O_CREAT | os.O_RDWR, 0o644, ctypes.byref(file)))
    must(library.spate_pwrite(file, data, len(data), ctypes.c_long(0)))
    back = ctypes.create_string_buffer(len(data))
    must(library.spate_pread(file, back, len(data), ctypes.c_long(0)))
    must(library.spate_close(file))
    print("good" if back.raw == data else "other data", flush=True)
"""


def library():
    for at in (os.path.join(BIN, "..", "src/capi"), os.path.join(BIN, "../lib")):
        for name in sorted(os.listdir(at)) if os.path.isdir(at) else []:
            if re.fullmatch(r"libspate\.so(\.\d+)*", name):
                return os.path.join(at, name)
    return None


def ask(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def add_server(fs):
    """Adds a server by one command. Everything that runs goes on running."""
    before = fs.pids()
    added = json.loads(fs.spate("--json", "server", "add", "--fs", fs.dir))
    check(added["server"] == NEW, added)
    fs.io += 1
    pids = fs.pids()
    check({server: pid for server, pid in pids.items() if server != NEW} == before, "servers: %s, then %s" % (before, pids))
    fs.seen.update(pids.values())
    up = {row["server"]: row["up"] for row in json.loads(fs.spate("--json", "status"))}
    check(up == {server: True for server in range(1, NEW + 1)}, up)


def near_the_others(fs):
    """Its port is the next one of the file system that nobody has, also if a server that has one is down."""
    fs.up()
    fs.kill(2)
    added = json.loads(fs.run("--json", "server", "add", "--fs", fs.dir).stdout)  # it mentions that a server has died
    fs.seen.update(fs.pids().values())
    check(added["urls"][-1] == "tcp://127.0.0.1:%d" % (fs.port + 3), "the ports are %d to %d, and the new one: %s" % (fs.port, fs.port + 2, added["urls"]))
    fs.spate("up", "-q", "--dir", fs.dir)
    fs.io += 1
    fs.seen.update(fs.pids().values())


def elsewhere(fs):
    """A machine whose spate.toml does not name the new server learns of it."""
    with open(fs.dir + "/spate.toml") as f:
        text = f.read()
    other = os.path.join(fs.root, "elsewhere.toml")
    with open(other, "w") as f:
        f.write(text[:text.rindex("[[servers]]")])
    rows = json.loads(fs.spate("--json", "--fs", other, "status"))
    check([row["server"] for row in rows] == list(range(1, NEW + 1)), rows)
    targets = {target["server"] for target in json.loads(fs.spate("--json", "--fs", other, "df"))["targets"]}
    check(NEW in targets, targets)
    check(fs.spate("--fs", other, "cat", "spate:/old") == DATA, "other data")
    done = fs.run("fsck", "--fs", other)
    check(done.returncode == 0, "fsck: exit %d\n%s%s" % (done.returncode, done.stdout.decode(), done.stderr))


def main():
    with Cluster(io=2) as fs:
        fs.up()
        fs.spate("put", "spate:/old", input=DATA)
        fs.spate("put", "spate:/disk", input=bytes(1 << 20))
        mount = os.path.join(fs.root, "mnt")
        mounted = os.path.exists("/dev/fuse") and os.path.exists(os.path.join(BIN, "spate-mount"))
        if mounted:
            fs.spate("mount", "-p", mount)
        try:
            run(fs, mount if mounted else None)
            elsewhere(fs)
        finally:
            if mounted:
                fs.run("umount", "-z", mount)
        fs.fsck()
    two_at_once()


def two_at_once():
    """Two commands at once: each waits for its turn before it reads spate.toml, so neither overwrites the other's
    addition."""
    with Cluster(io=2) as fs:
        near_the_others(fs)
    with Cluster(io=1) as fs:
        fs.up()
        with open(fs.dir + "/run/lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            adding = [subprocess.Popen([SPATE, "--json", "server", "add", "--fs", fs.dir], env=fs.env, stdout=subprocess.PIPE) for _ in range(2)]
            for one in adding:
                wait_until(lambda pid=one.pid: waits_for(pid, lock.name), "it waits for its turn")
        added = [json.loads(one.communicate(timeout=120)[0]) for one in adding]
        check({one["server"] for one in added} == {3, 4}, added)
        fs.io += 2
        fs.seen.update(fs.pids().values())
        with open(fs.dir + "/spate.toml", encoding="utf-8") as f:
            check(f.read().count("[[servers]]") == 4, "spate.toml does not name all servers")
        up = {row["server"]: row["up"] for row in json.loads(fs.spate("--json", "status"))}
        check(up == dict.fromkeys(range(1, 5), True), up)
        fs.fsck()


def waits_for(pid, file):
    folder = "/proc/%d/fd" % pid
    return any(os.path.realpath(os.path.join(folder, one)) == file for one in os.listdir(folder))


def run(fs, mount):
    shell = subprocess.Popen([SPATE, "run", "--", sys.executable, "-c", PRELOADED], env=fs.env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    capi = None
    if library():
        capi = subprocess.Popen([sys.executable, "-c", C_PROGRAM, library()], env=dict(fs.env, SPATE_FS=fs.dir), stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
    with Export("--port", "0", "vm=spate:/disk", "--fs", fs.dir, env=fs.env) as export, wire.Connection(export.address) as disk:
        disk.go("vm")
        disk.write(0, b"a" * 4096)
        check(ask(shell, "/spate/p1 1000") == "good", "preload before")
        check(capi is None or ask(capi, "/c1 1000") == "good", "C API before")
        add_server(fs)
        if mount is not None:
            with open(mount + "/m", "wb") as f:
                f.write(DATA)
                f.flush()
                os.fsync(f.fileno())
            with open(mount + "/m", "rb") as f:
                check(f.read() == DATA, "the mount reads other data")
            with open(mount + "/old", "rb") as f:
                check(f.read() == DATA, "the mount reads other data of an old file")
            check(fs.spate("cat", "spate:/m") == DATA, "a new client reads other data")
        check(ask(shell, "/spate/p2 9000000") == "good", "the preload library does not go on")
        check(capi is None or ask(capi, "/c2 9000000") == "good", "the C API does not go on")
        disk.write(4096, b"b" * 4096)
        check(disk.read(0, 8192) == b"a" * 4096 + b"b" * 4096, "the export reads other data")
        check(len(fs.datafiles(NEW)) > 0, "nothing lies on the new server")
    for process in (shell, capi):
        if process is not None:
            process.stdin.close()
            check(process.wait(20) == 0, "%s ended with %d" % (process.args[:3], process.returncode))


PRELOADED = """
import os, sys
for line in sys.stdin:
    name, size = line.split()
    data = b"p" * int(size)
    with open(name, "wb") as f:
        f.write(data)
    with open(name, "rb") as f:
        print("good" if f.read() == data else "other data", flush=True)
"""

main()
