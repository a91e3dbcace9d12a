# SPDX-License-Identifier: Apache-2.0
"""fallocate in all its modes, truncation, and atime."""
import os
import time

KEEP, PUNCH, COLLAPSE, ZERO, INSERT, UNSHARE = 1, 2, 8, 16, 32, 64
BLOCK = 4096


class Hidden(int):
    def __repr__(self):
        return "fd"


def allocation(r):
    size = lambda st: st.st_size
    r.frontend.mkdir("/allocate", 0o755)
    for mode in (0, KEEP, PUNCH, PUNCH | KEEP, ZERO, ZERO | KEEP, PUNCH | ZERO, PUNCH | KEEP | ZERO, 0x400, KEEP | 0x800):
        fd = r.open("/allocate/%d" % mode, os.O_RDWR | os.O_CREAT, 0o644)
        r.do("pwrite", Hidden(fd), b"data" * 25000, 0)
        for offset, length in ((0, 0), (0, -1), (-1, 1), (-1, 0), (1000, 5000), (8192, 40960), (99990, 100), (200000, 1000),
                               ((1 << 63) - 1, 1), ((1 << 62), 1 << 62), (0, (1 << 63) - 1)):
            if length > 1 << 40 and mode in (0, KEEP, ZERO, ZERO | KEEP):
                continue  # file systems differ in the sizes that they hold
            if offset > 1 << 60 and mode not in (0, KEEP):
                continue
            r.do("fallocate", Hidden(fd), mode, offset, length)
            r.do("fstat", Hidden(fd), show=size)
        r.do("pread", Hidden(fd), 300000, 0)
        r.frontend.close(fd)
    others = {"read": r.open("/allocate/0", os.O_RDONLY), "directory": r.open("/allocate", os.O_RDONLY), "append": r.open("/allocate/1", os.O_WRONLY | os.O_APPEND)}
    for name, fd in others.items():
        for mode in (0, KEEP, PUNCH | KEEP, ZERO, PUNCH):
            r.say(name)
            r.do("fallocate", Hidden(fd), mode, 0, 10)
        r.frontend.close(fd)


def zeros_read_back(r):
    """Reads every byte after each of many punches and zeroings, in files of several blocks and strips."""
    for mode in (PUNCH | KEEP, ZERO, ZERO | KEEP):
        fd = r.open("/zeros%d" % mode, os.O_RDWR | os.O_CREAT, 0o644)
        r.do("pwrite", Hidden(fd), bytes(range(1, 251)) * 14000, 0)
        for offset, length in ((1, 1), (4095, 2), (4096, 4096), (1000, 100000), (1048570, 20), (1048576, 1048576), (2000000, 1400000), (3499999, 5000)):
            r.do("fallocate", Hidden(fd), mode, offset, length)
            r.do("pread", Hidden(fd), 4000000, 0)
        r.frontend.close(fd)


def atime_moved(r, path, since):
    moved = r.frontend.stat(path).st_atime_ns > since
    r.say("atime of %s %s" % (path, "moved" if moved else "stays"))
    return r.frontend.stat(path).st_atime_ns


def read_once(r, path, flags=os.O_RDONLY, size=10):
    fd = r.frontend.open(path, flags)
    r.frontend.pread(fd, size, 0)
    r.frontend.close(fd)


def atime(r):
    """relatime, which the oracle's mount has, too. Each step has a time of its own."""
    path = "/atime"
    fd = r.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    r.do("pwrite", Hidden(fd), b"0123456789", 0)
    r.frontend.close(fd)
    at = r.frontend.stat(path).st_atime_ns
    pause = lambda: time.sleep(0.02)  # longer than a tick of the clock from which the kernel takes times
    pause()
    use = r.frontend.open(path, os.O_RDONLY)
    r.frontend.close(use)
    at = atime_moved(r, path, at)  # an open alone does not change atime
    before = r.frontend.stat(path)
    pause()
    read_once(r, path)
    at = atime_moved(r, path, at)
    after = r.frontend.stat(path)
    r.say("ctime %s mtime %s" % (before.st_ctime_ns == after.st_ctime_ns, before.st_mtime_ns == after.st_mtime_ns))
    pause()
    read_once(r, path)
    at = atime_moved(r, path, at)  # a second read does not change it
    pause()
    fd = r.frontend.open(path, os.O_RDWR)
    r.frontend.pwrite(fd, b"x", 0)
    r.frontend.close(fd)
    at = atime_moved(r, path, at)
    pause()
    read_once(r, path, os.O_RDONLY | os.O_NOATIME)
    at = atime_moved(r, path, at)
    pause()
    read_once(r, path)
    at = atime_moved(r, path, at)
    pause()
    r.frontend.chmod(path, 0o600)
    pause()
    read_once(r, path)
    at = atime_moved(r, path, at)
    old = time.time_ns() - 86400 * 10**9 * 2
    r.frontend.utimens(path, old, old - 10**9)
    pause()
    read_once(r, path)
    at = atime_moved(r, path, at - 86400 * 10**9)
    r.do("utimens", path, 10**18, 10**18 + 5)
    r.do("stat", path, show=lambda st: (st.st_atime_ns, st.st_mtime_ns))


def run(r):
    allocation(r)
    zeros_read_back(r)
    atime(r)
