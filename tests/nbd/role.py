#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Servers with the role block: they export what spate.toml lists, to the clients it names, and a server and its block
process end together."""
import os
import signal
import sys

from common import Cluster, check, wait_until
from nbd_wire import *  # noqa: F403

MIB = 1 << 20


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(word) for word in f.read().split()]


def gone(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def listed(address):
    with Connection(address) as c:
        return [data[4:].decode() for kind, data in c.option(OPT["LIST"]) if kind == SERVER]


def serves(address):
    try:
        return "image" in listed(address)
    except OSError:
        return False


def start(fs):
    """Starts the file system as it is now, with a server that `spate up` did not make."""
    fs.spate("up", "-q", "--dir", fs.dir)
    fs.seen.update(fs.pids().values())


def set_up(fs):
    """Adds a server 3 that has only the role block, next to meta and io."""
    path = os.path.join(fs.dir, "spate.toml")
    with open(path) as f:
        text = f.read()
    unix, disk = fs.root + "/socket", fs.root + "/disk"
    with open(path, "w") as f:
        f.write(text.replace("\n[block]\n", '\n[block]\naddresses = []\nunix = "%s"\n' % unix) + """
[[servers]]
id = 3
urls = ["tcp://127.0.0.1:%d"]
roles = ["block"]
[[exports]]
name = "image"
source = "spate:/image"
[[exports]]
name = "disk"
source = "%s"
server = 3
read_only = "yes"
[[exports]]
name = "other"
source = "%s"
server = 3
allow = ["192.0.2.0/24"]
[[exports]]
name = "late"
source = "%s/late"
server = 3
""" % (fs.port + 2, disk, disk, fs.root))
    return unix


def exports(fs, unix, image):
    check(listed(unix) == ["image", "disk"], "the list is %r" % listed(unix))
    with Connection(unix) as c:
        check(c.option(OPT["GO"], go_data(""))[-1][0] == ERR_UNKNOWN, "a default, of several that come and go")
        check(c.option(OPT["GO"], go_data("other"))[-1][0] == ERR_UNKNOWN, "an export for somebody who is not in its list")
        c.go("image")
        check(c.read(0, len(image)) == image, "other bytes")
        c.write(5000, b"new" * 1000)
        check(c.request(FLUSH).error == 0, "flush")
    check(fs.spate("cat", "spate:/image")[5000:8000] == b"new" * 1000, "what was written is not in the file system")
    with Connection(unix) as c:
        c.go("disk")
        check(c.flags & READ_ONLY and c.request(WRITE, 0, 512, 0, bytes(512)).error == EPERM, "a write to a read-only export")
    # A missing source is served as soon as it exists, and no other source waits for it.
    with open(fs.root + "/late", "wb") as f:
        f.truncate(12345)
    wait_until(lambda: "late" in listed(unix), "the export that came late is served")
    with Connection(unix) as c:
        check(c.go("late").size == 12345, "wrong size")


def ends(fs, unix):
    """Neither process outlives the other, however that one ends. An order to stop ends both in order."""
    spated = fs.pids()[3]
    exporter, = children(spated)
    os.kill(exporter, signal.SIGKILL)
    wait_until(lambda: gone(spated), "the server ends with its block process")
    check("the process of the role block has ended" in fs.log(3), "no word of it in the log")
    start(fs)
    wait_until(lambda: serves(unix), "it serves again")
    spated = fs.pids()[3]
    exporter, = children(spated)
    os.kill(spated, signal.SIGKILL)
    wait_until(lambda: gone(exporter), "the block process ends with the killed server")
    start(fs)
    wait_until(lambda: serves(unix), "it serves again")
    spated = fs.pids()[3]
    exporter, = children(spated)
    with Connection(unix) as c:
        c.go("image").read(0, 512)
        # The block process ends in order while the servers that it needs still run: it need not be killed (after 60 s).
        fs.spate("down", "-q", "--dir", fs.dir, timeout=45)
        check(gone(spated) and gone(exporter), "left behind")
        check(c.closed(), "a connection was left open")


def beside_io(fs, image):
    """One server holds the data and exports it. Each of the two processes needs the other to start, and both end in
    order."""
    path = os.path.join(fs.dir, "spate.toml")
    with open(path) as f:
        text = f.read()
    unix = fs.root + "/socket"
    changed = text.replace('roles = ["io"]', 'roles = ["io", "block"]').replace("\n[block]\n", '\n[block]\naddresses = []\nunix = "%s"\n' % unix)
    with open(path, "w") as f:
        f.write(changed + '\n[[exports]]\nname = "image"\nsource = "spate:/image"\n')
    fs.up()
    wait_until(lambda: serves(unix), "it serves")
    with Connection(unix) as c:
        c.go("image")
        check(c.read(0, len(image)) == image, "other bytes")
        c.write(70000, b"both" * 5000)
        check(c.request(FLUSH).error == 0, "flush")
    exporter, = children(fs.pids()[2])
    fs.kill(2)
    wait_until(lambda: gone(exporter), "the block process ends with the killed server")
    fs.up()
    wait_until(lambda: serves(unix), "it serves again")
    with Connection(unix) as c:
        c.go("image")
        check(c.read(70000, 20000) == b"both" * 5000, "what was flushed is gone")
    check(fs.spate("cat", "spate:/image") == image[:70000] + b"both" * 5000 + image[90000:], "the file system has other bytes")
    exporter, = children(fs.pids()[2])
    fs.spate("down", "-q", "--dir", fs.dir)
    check(gone(exporter), "left behind")


def main():
    image = os.urandom(MIB + 4096)
    with Cluster(io=1) as fs:
        fs.up()
        with open(fs.root + "/disk", "wb") as f:
            f.write(image)
        fs.spate("cp", fs.root + "/disk", "spate:/image")
        fs.spate("down", "-q", "--dir", fs.dir)
        unix = set_up(fs)
        fs.io = 2
        start(fs)
        check(" block " in fs.spate("status").decode(), "the role is not shown")
        wait_until(lambda: serves(unix), "it serves")
        exports(fs, unix, image)
        ends(fs, unix)
    with Cluster(io=1) as fs:
        fs.up()
        fs.spate("put", "spate:/image", input=image)
        fs.spate("down", "-q", "--dir", fs.dir)
        beside_io(fs, image)


if __name__ == "__main__":
    sys.exit(main())
