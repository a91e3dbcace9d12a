#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mount whose kernel keeps attributes for a tick: brief_copies.py requests SPATE MOUNT | changes MOUNT OTHER-MOUNT"""
import json
import os
import subprocess
import sys

CALLS = 200


def equal(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: {got!r}, should be {wanted!r}")


class Changes:
    """Looks at an object through one mount, changes it through the other, and looks again before the kernel's copy would
    have ended by itself."""

    def __init__(self, one, other):
        self.one, self.other = (os.path.join(mount, "changes") for mount in (one, other))
        os.mkdir(self.other)
        with open(self.b("file"), "w") as f:
            f.write("text")

    def a(self, name=""):
        return os.path.join(self.one, name)

    def b(self, name=""):
        return os.path.join(self.other, name)

    def each(self, name, change, look):
        """`change(turn)` returns what `look(stat)` must be afterwards."""
        fd = os.open(self.a(name), os.O_RDONLY)
        for turn in range(CALLS):
            os.stat(self.a(name))
            wanted = change(turn)
            equal(f"{name}, turn {turn}", look(os.fstat(fd)), wanted)
        os.close(fd)

    def mode(self, turn):
        os.chmod(self.b("file"), 0o600 + turn % 8)
        return 0o600 + turn % 8

    def append(self, turn):
        with open(self.b("file"), "a") as f:
            f.write("x")
        return 5 + turn

    def link(self, turn):
        os.link(self.b("file"), self.b(f"link-{turn}"))
        return 2 + turn

    def mkdir(self, turn):
        os.mkdir(self.b(f"d{turn}"))
        return 3 + turn

    def own_mode(self, turn):
        os.chmod(self.a("file"), 0o600 + turn % 8)
        return 0o600 + turn % 8

    def run(self):
        self.each("file", self.mode, lambda found: found.st_mode & 0o777)
        self.each("file", self.append, lambda found: found.st_size)
        self.each("file", self.link, lambda found: found.st_nlink)
        self.each("file", self.own_mode, lambda found: found.st_mode & 0o777)
        self.each("", self.mkdir, lambda found: found.st_nlink)


class Requests:
    """Counts the requests of the kernel for one call."""

    def __init__(self, spate, mount):
        self.spate, self.mount = spate, mount
        self.folder = os.path.join(mount, "requests", "below")
        os.makedirs(self.folder)

    def count(self):
        words = [self.spate, "mount", "--status", "--json", self.mount]
        return json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["requests"]

    def path(self, turn):
        return os.path.join(self.folder, f"f{turn}")

    def at_most(self, bound, call):
        before = self.count()
        for turn in range(CALLS):
            call(self.path(turn))
        spent = (self.count() - before) / CALLS
        if spent > bound:
            raise SystemExit(f"{call.__name__}: {spent} requests of the kernel, should be at most {bound}")

    # A look-up for each name of the path, and what the call itself needs. The kernel asks for the attributes of the mount's root, which it does
    # not look up, once in a tick: on a busy machine that is often.
    def run(self):
        def create(path):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))

        def read(path):
            os.close(os.open(path, os.O_RDONLY))

        self.at_most(7.5, create)
        self.at_most(7.5, read)
        self.at_most(4.5, os.stat)
        self.at_most(6.5, os.unlink)


if __name__ == "__main__":
    {"changes": Changes, "requests": Requests}[sys.argv[1]](*sys.argv[2:]).run()
