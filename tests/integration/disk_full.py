#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Full disks: of an io server's data, of all that an io server keeps, of the meta server. Existing data stays, the error names the reason,
and room that is made can be used, without a restart."""
import errno
import os
import re
import subprocess

from cluster import Cluster, check, make_tree, same_tree, skip, wait_until

IO = 2
SMALL = "%d" % (48 << 20)


class SmallDisk:
    """Mounts a tmpfs of 48 MiB at `path` while the block runs."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        os.makedirs(self.path, exist_ok=True)
        if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%s,mode=0700" % SMALL, "spate-test", self.path], stderr=subprocess.DEVNULL).returncode != 0:
            skip("a small tmpfs cannot be mounted here (needs root)")

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=True)


def free(path):
    s = os.statvfs(path)
    return s.f_bavail * s.f_frsize


def fill_and_recover(fs, disk, limit):
    """Adds files until one does not fit. Then some are removed, and new ones fit again."""
    make_tree(fs.root + "/tree", 50)
    fs.spate("cp", "-r", fs.root + "/tree", "spate:/tree")
    data = os.urandom(5 << 20)
    names = []
    for i in range(limit):
        done = fs.run("put", "spate:/f%d" % i, input=data)
        if done.returncode != 0:
            break
        names.append("spate:/f%d" % i)
    check(done.returncode == 1 and "no space left on device" in done.stderr, "full: exit %d, said: %s" % (done.returncode, done.stderr))
    check("server %d" % IO in done.stderr, "the full server is not named: " + done.stderr)
    check(len(names) >= 4, "only %d files fit" % len(names))
    check(fs.log(IO).count("the device is full") == 1, "the log does not say once that the device is full: " + fs.log(IO))
    # All files are unchanged, and the servers go on.
    for name in names:
        check(fs.spate("cat", name) == data, name + " has been harmed")
    fs.spate("cp", "-r", "spate:/tree", fs.root + "/back")
    same_tree(fs.root + "/tree", fs.root + "/back")
    fs.spate("status")
    check(fs.run("df").returncode == 0, "df fails")
    fs.run("rm", "spate:/f%d" % i)  # part of the file that did not fit may be there
    # Again and again: a file is removed, and another one fits.
    for turn in range(3):
        before = free(disk)
        fs.spate("rm", names.pop(), names.pop())
        wait_until(lambda: free(disk) > before + (4 << 20), "the space of removed files comes back")
        wait_until(lambda: fs.log(IO).count("the device has room again") == fs.log(IO).count("the device is full"), "the log says that there is room again")
        names.append("spate:/again%d" % turn)
        fs.spate("put", names[-1], input=data)
        check(fs.spate("cat", names[-1]) == data, "content differs after room was made")
    # The servers restart while the disk is full.
    fs.run("put", "spate:/last", input=os.urandom(64 << 20))
    fs.kill(IO)
    fs.up()
    for name in names:
        check(fs.spate("cat", name) == data, name + " has been harmed by a restart")
    fs.spate("rm", "-r", "spate:/tree", *names)


def disk_of_data():
    with Cluster(io=1) as fs:
        fs.up()
        fs.spate("down", "-q")
        target = fs.target(IO)
        os.rename(target, target + ".kept")
        with SmallDisk(target):
            subprocess.run(["cp", "-a", target + ".kept/.", target], check=True)
            fs.up()
            fill_and_recover(fs, target, 20)
            fs.fsck()
            fs.spate("down", "-q")


def disk_filled_by_who_writes_by_himself():
    """A mount of the servers' user writes datafiles under leases. It leaves the room that the server keeps for records."""
    if not os.access("/dev/fuse", os.W_OK):
        return
    with Cluster(io=1) as fs:
        fs.up()
        fs.spate("down", "-q")
        target = fs.target(IO)
        os.rename(target, target + ".kept")
        with SmallDisk(target):
            subprocess.run(["cp", "-a", target + ".kept/.", target], check=True)
            fs.up()
            place = fs.root + "/mount"
            fs.spate("mount", "-q", "-p", place)
            try:
                written = 0
                error = None
                fd = os.open(place + "/large", os.O_CREAT | os.O_WRONLY)
                while error is None and written < (64 << 20):
                    try:
                        written += os.write(fd, b"x" * (256 << 10))
                    except OSError as failed:
                        error = failed
                os.close(fd)
                check(error is not None and error.errno == errno.ENOSPC, "after %d bytes: %s" % (written, error))
                check(free(target) > (5 << 20), "only %d bytes are left for records" % free(target))
                moved = fs.spate("stats", "--prometheus", "%d" % IO).decode()
                check(re.search(r'path="bypass",direction="write"} [1-9]\d{6}', moved), "nothing was written under a lease:\n" + moved)
                os.unlink(place + "/large")
            finally:
                fs.spate("umount", place)
            fs.spate("down", "-q")


def disk_of_everything():
    """Removing a file writes records. There must be room for them even on a full disk."""
    with Cluster(io=1) as fs:
        home = fs.dir + "/server-%d" % IO
        with SmallDisk(home):
            fs.up()
            fill_and_recover(fs, home, 20)
            fs.fsck()
            fs.spate("down", "-q")


def disk_of_meta():
    with Cluster(io=1) as fs:
        home = fs.dir + "/server-1"
        with SmallDisk(home):
            fs.up()
            fs.spate("down", "-q")
            with open(home + "/ballast", "wb") as ballast:
                ballast.write(b"b" * (26 << 20))
            fs.up()
            make_tree(fs.root + "/tree", 50)
            fs.spate("cp", "-r", fs.root + "/tree", "spate:/tree")
            made = []
            for i in range(1000):
                done = fs.run("mkdir", "-p", *["spate:/d%d-%d" % (i, j) for j in range(1000)])
                if done.returncode != 0:
                    break
                made.append(i)
            check(done.returncode == 1 and "no space left on device" in done.stderr, "full: exit %d, said: %s" % (done.returncode, done.stderr))
            check("room for removals only" in done.stderr, "the full server is not told: " + done.stderr)
            check(fs.log(1).count("the device is full") == 1, "the log does not say once that the device is full: " + fs.log(1))
            # Existing files can be read, and files can be removed to make room.
            fs.spate("cp", "-r", "spate:/tree", fs.root + "/back")
            same_tree(fs.root + "/tree", fs.root + "/back")
            fs.spate("rm", "-r", "spate:/d0-0", "spate:/d0-1")
            os.unlink(home + "/ballast")
            fs.spate("mkdir", "spate:/after")
            wait_until(lambda: "the device has room again" in fs.log(1), "the log says that there is room again")
            fs.kill(1)
            fs.up()
            fs.spate("stat", "spate:/after", *["spate:/d%d-999" % i for i in made])
            fs.fsck()
            fs.spate("down", "-q")


if __name__ == "__main__":
    disk_of_data()
    disk_filled_by_who_writes_by_himself()
    disk_of_everything()
    disk_of_meta()
