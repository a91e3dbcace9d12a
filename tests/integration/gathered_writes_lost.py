#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gathered writes that the servers do not take: a full disk, and a mount that ends while they are away. The program learns of it, other files go
on, and the log of the mount names what is lost."""
import errno
import os
import re
import shutil
import signal
import subprocess
import sys

from cluster import Cluster, alive, check, skip, wait_until
from gathering import Mount, mounts_of

MIB = 1 << 20
LOST = re.compile(r'gathered writes are lost path="([^"]*)" inode=\d+ offset=(\d+) bytes=(\d+) error="([^"]*)"')


class Disk:
    """A disk of its own for the data of both io servers, which can be filled in no time. Nothing is gathered for a disk with little room."""

    def __init__(self, fs):
        self.path = fs.root + "/disk"
        os.mkdir(self.path)
        if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % (400 * MIB), "spate-test", self.path], stderr=subprocess.DEVNULL).returncode != 0:
            skip("a tmpfs cannot be mounted here (needs root)")

    def free(self):
        s = os.statvfs(self.path)
        return s.f_bavail * s.f_frsize

    def fill(self):
        file = os.open(self.path + "/full", os.O_CREAT | os.O_WRONLY)
        while self.free() > 0:
            os.posix_fallocate(file, os.fstat(file).st_size, self.free())
        os.close(file)

    def make_room(self):
        os.unlink(self.path + "/full")

    def remove(self):
        subprocess.run(["umount", "-l", self.path], check=True)


def create(path):
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)


def losses(mount, name):
    """The ranges, in order, of a file that the log names."""
    found = [(int(begin), int(size), error) for path, begin, size, error in LOST.findall(mount.log()) if path == name]
    return sorted(found)


def fails_once(call, code, what):
    try:
        call()
    except OSError as error:
        check(error.errno == code, "%s: %s" % (what, error))
        return
    raise AssertionError(what + " did not fail")


def full_disk(fs, mount, disk):
    """No process is started while servers stand still: it would close the descriptors of this one, and close(2) waits for the servers."""
    os.mkdir(mount.path + "/sub")
    files = {name: create("%s/%s" % (mount.path, name)) for name in ("sub/synced", "sub/closed", "sub/goes on")}
    for server in 2, 3:  # nothing is sent before the disk is full
        os.kill(fs.pids()[server], signal.SIGSTOP)
    for file in files.values():
        for number in range(16):
            os.write(file, bytes([number + 1]) * 4096)
    disk.fill()
    for server in 2, 3:
        os.kill(fs.pids()[server], signal.SIGCONT)
    fails_once(lambda: os.fsync(files["sub/synced"]), errno.ENOSPC, "fsync on a full disk")
    fails_once(lambda: os.close(files["sub/closed"]), errno.ENOSPC, "close on a full disk")
    wait_until(lambda: losses(mount, "sub/goes on"), "the log names each file", 60)
    for name in files:
        lost = losses(mount, name)
        check([range[:2] for range in lost] == [(0, 65536)], "%s: the log says %s" % (name, lost))
        check("space" in lost[0][2], "the log does not say why: %s" % (lost,))
    check(mount.number("gathered_requests_lost") == 3, "status counts %s" % mount.status("gathered_requests_lost"))
    check(mount.number("gathered_bytes_lost") == 3 * 65536, "status counts %s bytes" % mount.status("gathered_bytes_lost"))
    disk.make_room()
    os.fsync(files["sub/synced"])  # it was told once
    fails_once(lambda: os.write(files["sub/goes on"], b"x"), errno.ENOSPC, "the next write")
    for name in "sub/synced", "sub/goes on":
        os.pwrite(files[name], b"again", 0)
        os.ftruncate(files[name], 5)
    os.fsync(files["sub/synced"])
    os.close(files["sub/synced"])
    fails_once(lambda: os.fsync(files["sub/goes on"]), errno.ENOSPC, "the fsync after the write that failed")
    os.close(files["sub/goes on"])
    with open(mount.path + "/sub/goes on", "rb") as file:
        check(file.read() == b"again", "a file cannot be used after its disk was full")


def keeps_counting(mount):
    """The next process of the mount counts on."""
    before = mount.server()
    mount.kill("server")
    wait_until(lambda: mount.server() != before, "another process serves the mount", 60)
    wait_until(lambda: mount.number("gathered_requests_lost") == 3, "the next process counts on", 60)


def full_disk_of_new_files(fs, mount, disk):
    """The meta server stands still while files are made, written and closed. Their data find the disk full. The files have their times."""
    os.mkdir(mount.path + "/new")
    tries = iter(range(10**6))

    def queues():
        before = mount.number("queued_changes")
        os.close(create("%s/new/ready%d" % (mount.path, next(tries))))
        return mount.number("queued_changes") > before
    wait_until(queues, "the mount queues changes", 60)
    mount.is_ready()
    os.kill(fs.pids()[1], signal.SIGSTOP)
    files = {name: create("%s/new/%s" % (mount.path, name)) for name in ("closed", "read", "open")}
    for file in files.values():
        os.write(file, b"n" * 5000)
        os.utime(file, ns=(10**9, 7 * 10**9 + 7))
    os.close(files["closed"])
    os.close(files["read"])
    disk.fill()
    os.kill(fs.pids()[1], signal.SIGCONT)
    fails_once(lambda: os.fsync(files["open"]), errno.ENOSPC, "fsync of a new file on a full disk")
    again = os.open(mount.path + "/new/closed", os.O_RDONLY)
    fails_once(lambda: os.fsync(again), errno.ENOSPC, "fsync of a new file that was closed")
    os.fsync(again)
    os.close(again)
    again = os.open(mount.path + "/new/read", os.O_RDONLY)
    fails_once(lambda: os.close(again), errno.ENOSPC, "the next close of a new file")
    for name in files:
        wait_until(lambda: losses(mount, "new/" + name), "the log names new/%s" % name, 60)
        lost = losses(mount, "new/" + name)
        check([range[:2] for range in lost] == [(0, 5000)] and "space" in lost[0][2], "new/%s: the log says %s" % (name, lost))
        state = os.stat("%s/new/%s" % (mount.path, name))
        check(state.st_mtime_ns == 7 * 10**9 + 7, "new/%s: %s" % (name, state))
    check(mount.number("gathered_requests_lost") == 3, "status counts %s" % mount.status("gathered_requests_lost"))
    disk.make_room()
    os.fsync(files["open"])
    os.pwrite(files["open"], b"again", 0)
    os.close(files["open"])
    with open(mount.path + "/new/open", "rb") as file:
        check(file.read(5) == b"again", "a new file cannot be used after its disk was full")


# Writes 16 KiB to a file that was renamed before, and holds it open.
HOLDER = """
import os, sys
file = os.open("first", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
os.rename("first", 'an "odd" name')
for number in range(4):
    os.write(file, bytes([number + 1]) * 4096)
print("written", flush=True)
sys.stdin.read()
"""


def ends_without_servers(fs, mount):
    """Both io servers stand still. The mount ends nevertheless, and names what is lost."""
    server, supervisor = mount.server(), mount.number("supervisor")
    fs.kill(2, 3, sig=signal.SIGSTOP)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], cwd=mount.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    check(holder.stdout.readline() == b"written\n", "the holder has not written")
    os.kill(supervisor, signal.SIGTERM)
    wait_until(lambda: not alive(server), "the server of the mount ends", 60)
    lost = re.findall(r"gathered writes are lost path=.*an .*odd.* name.* offset=0 bytes=16384 error=.*the mount ends", mount.log())
    check(len(lost) == 1, "the log does not say what is lost:\n" + mount.log())
    check("has gone" not in mount.log().rsplit("ending reason=", 1)[1], "the server of the mount has crashed:\n" + mount.log())
    for number in 2, 3:
        os.kill(fs.pids()[number], signal.SIGCONT)
    holder.kill()
    holder.wait()


with Cluster(io=2) as cluster, mounts_of(cluster) as mounts:
    cluster.up()
    cluster.spate("down", "-q")
    disk = Disk(cluster)
    try:
        for number in 2, 3:
            target = cluster.target(number)
            shutil.move(target, "%s/%d" % (disk.path, number))
            os.symlink("%s/%d" % (disk.path, number), target)
        cluster.up()
        gathers = Mount(cluster, "gathers", "nodelegate")
        mounts.append(gathers)
        gathers.is_ready()
        delegates = Mount(cluster, "delegates")
        mounts.append(delegates)
        full_disk_of_new_files(cluster, delegates, disk)
        gathers.is_ready()
        full_disk(cluster, gathers, disk)
        keeps_counting(gathers)
        gathers.is_ready()
        ends_without_servers(cluster, gathers)
    finally:
        disk.remove()
