# SPDX-License-Identifier: Apache-2.0
"""Disks that lose power, in the guest of crash.py: ext4 on dm-log-writes, which records each write and each flush.

A disk has three areas of the guest's block device: what the file system writes to, the log of these writes, and the platter,
which holds what was there when the log began. A crash keeps a part of the log that a real disk with a volatile cache might have
kept: everything up to the last flush before the crash, and perhaps some of what was written after it.
Format of the log: drivers/md/dm-log-writes.c of Linux.
"""
import os
import struct
import subprocess

SECTOR = 512
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
SUPER = struct.Struct("<QQQI")  # magic, version, entries, bytes of a sector
ENTRY = struct.Struct("<QQQQ")  # sector, sectors, flags, bytes of a mark's text
WORK, LOG = 256 << 20, 1 << 30  # bytes
BYTES = 2 * WORK + LOG          # of the guest's block device, for each disk
KILLED = b"killed"


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def device(name, table):
    env = dict(os.environ, DM_DISABLE_UDEV="1")
    subprocess.run(["dmsetup", "create", name], input=table.encode(), check=True, env=env)
    return "/dev/mapper/" + name


def remove_device(name):
    subprocess.run(["dmsetup", "remove", name], check=True, env=dict(os.environ, DM_DISABLE_UDEV="1"))


class Entry:
    def __init__(self, sector, sectors, flags, at):
        self.start, self.size, self.flags, self.at = sector * SECTOR, sectors * SECTOR, flags, at

    def durable(self):
        return bool(self.flags & (FLUSH | FUA))


def read_log(fd):
    """Returns the writes and flushes of the log in order, and how many of them precede the mark KILLED."""
    _, _, count, size = SUPER.unpack(os.pread(fd, SUPER.size, 0))
    assert size == SECTOR, "sectors of %d bytes" % size
    at, found, killed = SECTOR, [], None
    for _ in range(count):
        head = os.pread(fd, SECTOR, at)
        sector, sectors, flags, told = ENTRY.unpack_from(head)
        assert not flags & DISCARD, "a discard, which this test does not replay"
        at += SECTOR
        if flags & MARK:
            killed = len(found) if head[ENTRY.size:ENTRY.size + told] == KILLED else killed
            continue
        found.append(Entry(sector, sectors, flags, at))
        at += sectors * SECTOR
    return found, len(found) if killed is None else killed


def kept_by_a_crash(entries, killed, random):
    """Returns the indices of the writes that are on the platter after the power has failed. `killed`: how many the log had
    when the processes were killed. `random`: None keeps what must be kept and nothing else."""
    first = max((i + 1 for i in range(killed) if entries[i].durable()), default=0)
    if random is None:
        return list(range(first))
    # Until the next flush, a disk may write what it has in any order.
    last = next((i for i in range(first, len(entries)) if entries[i].flags & FLUSH), len(entries))
    return list(range(first)) + [i for i in range(first, last) if random.random() < 0.5]


class Disk:
    def __init__(self, name, block_device, number, folder):
        self.name, self.folder = name, folder
        self.areas = {}
        at = number * BYTES
        for area, size in (("work", WORK), ("platter", WORK), ("log", LOG)):
            self.areas[area] = device("%s-%s" % (name, area), "0 %d linear %s %d" % (size // SECTOR, block_device, at // SECTOR))
            at += size
        os.makedirs(folder)
        self.begin_log()
        run("mkfs.ext4", "-q", "-b", "4096", "-I", "256", "-J", "size=8", "-N", "8192", "-E", "nodiscard,lazy_itable_init=0", self.logged)
        self.settle()

    def begin_log(self):
        self.logged = device(self.name, "0 %d log-writes %s %s" % (WORK // SECTOR, self.areas["work"], self.areas["log"]))

    def mount(self):
        # No journal is written by time alone: only a sync makes something durable.
        run("mount", "-o", "commit=600", self.logged, self.folder)

    def mark_killed(self):
        """The processes that used the disk have been killed: nothing later is their doing."""
        run("dmsetup", "message", self.name, "0", "mark " + KILLED.decode())

    def settle(self):
        """After an unmount: everything is on the platter."""
        self.replay(lambda entries, killed: range(len(entries)))

    def crash(self, random):
        """The power fails. Call mark_killed() before. Returns how many of the writes were lost."""
        run("umount", self.folder)
        lost = self.replay(lambda entries, killed: kept_by_a_crash(entries, killed, random))
        self.mount()
        return lost

    def replay(self, choose):
        remove_device(self.name)  # ends the log
        log, work, platter = (os.open(self.areas[area], os.O_RDWR) for area in ("log", "work", "platter"))
        entries, killed = read_log(log)
        kept = set(choose(entries, killed))
        for i in sorted(kept):
            os.pwrite(platter, os.pread(log, entries[i].size, entries[i].at), entries[i].start)
        lost = [entry for i, entry in enumerate(entries) if i not in kept and entry.size > 0]
        for entry in lost:
            os.pwrite(work, os.pread(platter, entry.size, entry.start), entry.start)
        for fd in (log, work, platter):
            os.fsync(fd)
            os.close(fd)
        self.begin_log()
        return len(lost)
