#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An io server is added as docs/operating.md says while a mount, a program with the preload library, an NBD export and a program of
the C API run. All go on, and their new files use it."""
import ctypes
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/nbd"))
from cluster import BIN, SPATE, SPATED, Cluster, check, wait_until
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
    """By the letter: into spate.toml, made, started, and the meta server anew."""
    with open(fs.dir + "/spate.toml") as f:
        text = f.read()
    last = "[[servers]]\n" + re.split(r"^\[", text.split("[[servers]]\n")[-1], flags=re.M)[0]
    check("id = %d\n" % (NEW - 1) in last, last)
    new = last.replace("id = %d\n" % (NEW - 1), "id = %d\n" % NEW).replace("server-%d" % (NEW - 1), "server-%d" % NEW)
    new = new.replace(":%d" % (fs.port + NEW - 2), ":%d" % (fs.port + NEW - 1)).replace("/%d\"" % (NEW - 1), "/%d\"" % NEW)
    with open(fs.dir + "/spate.toml", "a") as f:
        f.write("\n" + new)
    os.makedirs("%s/server-%d" % (fs.dir, NEW), exist_ok=True)
    command = [SPATED, "--config", fs.dir + "/spate.toml", "--server", str(NEW)]
    with open("%s/log/server-%d.log" % (fs.dir, NEW), "wb") as log:
        done = subprocess.run(command + ["--format"], env=fs.env, stderr=log, stdout=log, timeout=60)
        check(done.returncode == 0, "--format ended with %d" % done.returncode)
    fs.io += 1
    fs.spate("up", "-q", "--dir", fs.dir)  # starts the one that does not run
    pids = fs.pids()
    check(NEW in pids, "the new server does not run: %s\n%s" % (pids, new))
    fs.seen.update(pids.values())
    fs.kill(1)
    fs.spate("up", "-q", "--dir", fs.dir)
    fs.seen.update(fs.pids().values())


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
        finally:
            if mounted:
                fs.run("umount", "-z", mount)
        fs.fsck()


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
