# SPDX-License-Identifier: Apache-2.0
"""Runs groups of cases on one front end and prints the result of every call as one line. Two front ends agree if their
lines agree.

    cases.py FRONTEND ROOT GROUP...     FRONTEND: os, or a path of libspate.so; ROOT: an empty folder, as that frontend names it
"""
import errno
import importlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Recorder:
    """`do("pread", ...)` runs a call, prints a line, and returns the call's result, or None after an error."""

    def __init__(self, make, group):
        self.make, self.group, self.line = make, group, 0
        self.begin_anew()

    def begin_anew(self):
        """Makes a new front end. A child needs that, since it may be another user."""
        self.frontend = self.make()
        self.frontend.umask(0o022)

    def say(self, text):
        self.line += 1
        sys.stdout.write("%s %d %s\n" % (self.group, self.line, text))

    def do(self, call, *arguments, show=None):
        shown = ", ".join(short(a) for a in arguments)
        self.failed = False
        try:
            result = getattr(self.frontend, call)(*arguments)
        except OSError as error:
            self.failed = True
            self.say("%s(%s) = %s" % (call, shown, errno.errorcode.get(error.errno, error.errno)))
            return None
        self.say("%s(%s) = %s" % (call, shown, short(show(result) if show else result)))
        return result

    def open(self, *arguments):
        return self.do("open", *arguments, show=lambda fd: "open")


def short(value):
    if isinstance(value, bytes) and len(value) > 24:
        return "%d bytes, %08x" % (len(value), hash_of(value))
    return repr(value) if not isinstance(value, str) else value


def hash_of(data):
    import zlib
    return zlib.crc32(data)


def make_frontend(kind, root):
    if kind == "os":
        from os_frontend import OsFrontend
        return OsFrontend(root)
    from native_frontend import NativeFrontend
    return NativeFrontend(root, kind)


def main():
    kind, root, groups = sys.argv[1], sys.argv[2], sys.argv[3:]
    for group in groups:
        module = importlib.import_module("cases_" + group)
        module.run(Recorder(lambda: make_frontend(kind, root), group))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
