# SPDX-License-Identifier: Apache-2.0
"""A program whose servers lose power, in the guest of crash.py. It remembers what was acknowledged, and what is durable by
docs/consistency.md, and compares it with what is there afterwards.

  crash_worker.py FILE_SYSTEM NAME SEED

It works in /once/NAME, whose files have one copy, and in /twice/NAME, whose files have two. It prints how many operations it
has done, line by line. A line "crashed SERVER..." on its standard input says which machines lose power. The caller stops the
process (SIGSTOP) before it writes that line, and lets it go on when the servers are dead, so that no call both begins before the
crash and is counted after it but the one that is under way. Then the worker waits for the servers, compares, and prints what is
wrong as its last line, in JSON.
"""
import json
import random
import sys

from crash_calls import Calls, Crashed, FileSystem, Layout
from crash_model import DataFile, Names
from crash_servers import METAS

BLOCKS, BLOCK, STRIP = 12, 16384, 65536


class Worker:
    def __init__(self, where, name, seed):
        self.where, self.name, self.random = where, name, random.Random(seed)
        self.fs = FileSystem(where)
        self.folders = ["/once/" + name, "/twice/" + name]
        for folder in self.folders:
            self.fs.mkdir(folder)
        self.files = []
        for number in range(4):
            copies = number % 2 + 1
            layout = Layout(STRIP, 1 if copies == 1 else 3, 0, None)
            path = "%s/data%d" % (self.folders[copies - 1], number)
            self.files.append(DataFile(self.fs, path, number, copies, layout, BLOCKS, BLOCK))
        self.names = Names(self.fs, self.folders[1] + "/names")
        for file in self.files:
            for block in range(BLOCKS // 3):
                file.write(block)
            self.sync(file)
        self.last = None  # what the operation under way, or the last one, was about

    def sync(self, synced):
        """An fsync of a file covers all changes of names before it as well."""
        changes = self.names.count()
        synced.sync()
        self.names.durable = changes

    def step(self):
        choice = self.random.random()
        self.last = self.random.choice(self.files) if choice < 0.6 else self.names
        if choice < 0.5:
            self.last.write(self.random.randrange(BLOCKS))
        elif choice < 0.6:
            self.sync(self.last)
        elif choice < 0.65:
            self.sync(self.names)
        else:
            self.names.change(self.random)

    def work(self):
        """Returns the servers that have crashed."""
        done, Calls.watching = 0, True
        try:
            while True:
                self.step()
                done += 1
                print(done, flush=True)
        except Crashed:
            Calls.watching = False
        words = sys.stdin.readline().split()
        if words[:1] != ["crashed"]:
            sys.exit("no server has crashed")
        return [int(word) for word in words[1:]]

    def problems(self, crashed):
        """Returns what is not as promised, and how many acknowledged changes are gone."""
        found, lost = [], 0
        for file in self.files:
            found += file.report_of_a_loss(crashed, self.last is file)
        for fs in (self.fs, FileSystem(self.where)):
            for file in self.files:
                wrong, older = file.compare(fs)
                found += wrong
                lost += older if fs is self.fs else 0
            if fs is not self.fs:
                wrong, undone = self.names.compare(fs, set(METAS) <= set(crashed), self.last is self.names)
                found += wrong
                lost += undone
                fs.disconnect()
        self.fs.disconnect()
        return found, lost


def main():
    worker = Worker(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    crashed = worker.work()
    try:
        found, lost = worker.problems(crashed)
    except OSError as error:
        found, lost = ["a call has failed: %s" % error], 0
    unsynced = [file.path for file in worker.files if file.was_dirty]
    print(json.dumps({"problems": found, "lost": lost, "unsynced": unsynced}), flush=True)


main()
