# SPDX-License-Identifier: Apache-2.0
"""The files and names of crash_worker.py: what was acknowledged of them, what is durable, and what may be there after a crash."""
import errno
import os
import struct

from crash_servers import IOS

WORD = struct.Struct("<IIQ")  # file, block, version
TARGETS_PER_SERVER = 256


class DataFile:
    """Blocks that say which version of which block they are. `copies`: on as many io servers."""

    def __init__(self, fs, path, number, copies, layout, blocks, block):
        self.path, self.number, self.copies, self.block = path, number, copies, block
        self.file = fs.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, layout)
        self.begun, self.acknowledged, self.durable = [0] * blocks, [0] * blocks, [0] * blocks
        self.server = 0  # of a file without copies, which has one datafile
        self.was_dirty = False
        self.before = []  # [block] the version that a crash has left at least

    def content(self, block, version):
        return WORD.pack(self.number, block, version) * (self.block // WORD.size)

    def write(self, block):
        self.begun[block] += 1
        self.file.write(block * self.block, self.content(block, self.begun[block]))
        self.acknowledged[block] = self.begun[block]

    def sync(self):
        now = list(self.acknowledged)
        self.file.sync()
        self.durable = now
        if self.copies == 1:
            self.server = self.file.first_target() // TARGETS_PER_SERVER

    def dirty(self):
        return self.acknowledged != self.durable

    def may_have_lost(self, crashed):
        """Returns whether the crash of these servers may take writes that were acknowledged and not synced."""
        if self.copies == 1:
            return self.server in crashed
        return len([server for server in crashed if server in IOS]) > 1

    def report_of_a_loss(self, crashed, under_way):
        """The first fsync after the crash must report that unsynced writes may be lost, and the second one not.
        `under_way`: the crash has met a call on this file."""
        self.was_dirty = self.dirty() or under_way
        self.before = list(self.durable if self.may_have_lost(crashed) else self.acknowledged)
        said = [self.error_of_sync() for _ in range(2)]
        right = {errno.EIO if self.dirty() and self.may_have_lost(crashed) else 0}
        if under_way and self.may_have_lost(crashed):
            right = {0, errno.EIO}
        if said[0] not in right or said[1] != 0:
            return ["%s: fsyncs after the crash said %s; there were%s unsynced writes" % (self.path, said, "" if self.dirty() else " no")]
        return []

    def error_of_sync(self):
        try:
            self.file.sync()
        except OSError as error:
            if error.errno == errno.EIO:
                return error.errno
            raise
        return 0

    def compare(self, fs):
        """Returns what is wrong when `fs` reads the file, and how many blocks have an older version than was acknowledged."""
        file, wrong, older = fs.open(self.path, os.O_RDONLY), [], 0
        for block, version in enumerate(self.begun):
            data = file.read(block * self.block, self.block).ljust(self.block, b"\0")
            there = {WORD.unpack_from(data, at) for at in range(0, self.block, WORD.size)}
            known = {(self.number, block, v) for v in range(max(self.before[block], 1), version + 1)}
            if self.before[block] == 0:
                known.add((0, 0, 0))
            if there - known:
                wrong.append("%s, block %d: %s is there; durable was version %d and begun version %d" % (
                    self.path, block, sorted(there - known)[:3], self.before[block], version))
            older += min(v for _, _, v in there) < self.acknowledged[block]
        file.close()
        return wrong, older


class Names:
    """Changes of names in one directory, by one client, one after the other. A crash may take the latest of them."""

    def __init__(self, fs, folder):
        self.fs, self.folder = fs, folder
        fs.mkdir(folder)
        self.changes = []  # ("create", name, id), ("rename", name, new name), ("unlink", name)
        self.contents = {}  # id: content, which was synced
        self.there = {}  # name: id
        self.durable = 0

    def count(self):
        return len(self.changes)

    def sync(self):
        directory = self.fs.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        directory.sync()
        directory.close()

    def path(self, name):
        return "%s/%s" % (self.folder, name)

    def begin(self, *change):
        self.changes.append(change)
        self.there = applied(self.there, change)

    def change(self, random):
        choice = random.random()
        if choice < 0.4 or len(self.there) < 3:
            self.create("f%d" % len(self.changes), random.random() < 0.5)
        elif choice < 0.6:
            self.create("new%d" % len(self.changes), True)
            self.rename("new%d" % (len(self.changes) - 1), "current")  # as editors replace a file
        elif choice < 0.8:
            self.rename(random.choice(sorted(self.there)), "r%d" % random.randrange(10))
        else:
            name = random.choice(sorted(self.there))
            self.begin("unlink", name)
            self.fs.unlink(self.path(name))

    def create(self, name, synced):
        number = len(self.changes)
        self.begin("create", name, number)
        file = self.fs.open(self.path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if synced:
            content = b"%d " % number * 100
            file.write(0, content)
            file.sync()
            self.contents[number], self.durable = content, len(self.changes)
        file.close()

    def rename(self, name, to):
        if name != to:
            self.begin("rename", name, to)
            self.fs.rename(self.path(name), self.path(to))

    def compare(self, fs, may_have_lost, under_way):
        """Returns what is wrong, and how many acknowledged changes are gone. What is there must be the result of all changes
        up to one, and of a change that was sent again after the crash (`under_way`)."""
        names = self.listing(fs)
        first = self.durable if may_have_lost else len(self.changes) - under_way
        last = self.changes[-1] if under_way and self.changes else None
        for kept in range(len(self.changes), first - 1, -1):
            state = {}
            for change in self.changes[:kept]:
                state = applied(state, change)
            for right in (state, applied(state, last)):
                if set(right) == names and not self.wrong_contents(fs, right):
                    return [], len(self.changes) - kept
        return ["names: %s are there; the first %d changes of %s are durable" % (sorted(names), first, self.changes)], 0

    def listing(self, fs):
        directory = fs.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        names = directory.names()
        directory.close()
        return names

    def wrong_contents(self, fs, state):
        wrong = []
        for name, number in state.items():
            if number in self.contents:
                file = fs.open(self.path(name), os.O_RDONLY)
                if file.read(0, 10000) != self.contents[number]:
                    wrong.append(name)
                file.close()
        return wrong


def applied(state, change):
    """Returns the names after a change, or those before if it fails."""
    if change is None or (change[0] != "create" and change[1] not in state):
        return state
    after = dict(state)
    if change[0] == "create":
        after[change[1]] = change[2]
    elif change[0] == "rename":
        after[change[2]] = after.pop(change[1])
    else:
        del after[change[1]]
    return after
