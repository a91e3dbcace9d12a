#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""openat2 with `resolve`: /spate behaves like the kernel's own file system, call by call. Run by openat2.sh."""
import ctypes
import errno
import os
import struct
import sys

NUMBER = 437
NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT, CACHED = (1 << i for i in range(6))
O_PATH, O_TMPFILE = os.O_PATH, os.O_TMPFILE
HERE = os.AT_FDCWD if hasattr(os, "AT_FDCWD") else -100
libc = ctypes.CDLL(None, use_errno=True)


def openat2(directory, path, flags=os.O_RDONLY, resolve=0, mode=0, how=None):
    """Returns a descriptor or -errno."""
    how = how if how is not None else struct.pack("QQQ", flags, mode, resolve)
    while True:
        number = libc.syscall(NUMBER, directory, path.encode(), how, len(how))
        if number >= 0: return number
        # Below a root the kernel fails if any process renames or mounts something meanwhile, anywhere: openat2(2).
        if ctypes.get_errno() != errno.EAGAIN or resolve & CACHED: return -ctypes.get_errno()


def seen(number):
    """Returns the result of a call in a form that is the same on both sides."""
    if number < 0: return errno.errorcode[-number]
    try:
        if os.path.stat.S_ISDIR(os.fstat(number).st_mode): return "directory " + ",".join(sorted(os.listdir(f"/proc/self/fd/{number}")))
        if os.path.stat.S_ISLNK(os.fstat(number).st_mode): return "link"
        return "file " + os.pread(number, 100, 0).decode()
    except OSError as error:
        return "unreadable " + errno.errorcode[error.errno]
    finally:
        os.close(number)


def make_tree(root):
    """Makes a directory `in` with links that lead out of it, and objects next to it."""
    os.makedirs(f"{root}/in/d/e")
    for name in ("in/f", "in/d/f", "in/d/e/f", "out"):
        with open(f"{root}/{name}", "w", encoding="ascii") as file: file.write(name)
    for name, target in {"to-f": "f", "to-d": "d", "deep": "d/e/../e/f", "up": "../out", "back": "d/../../in/f", "abs": f"{root}/in/f",
                         "root": "/d/f", "loop": "loop", "d/here": "../f", "d/e/top": "../../..", "nothing": "none"}.items():
        os.symlink(target, f"{root}/in/{name}")


PATHS = ["f", "d/f", "d", ".", "d/..", "d/../f", "d/e/../../f", "d/e/../f", "..", "../in/f", "../out", "d/../../out", "d/e/../../../in/f",
         "to-f", "to-d/f", "to-d/..", "to-d/e/f", "to-d/", "to-f/", "f/", "d/", "deep", "up", "back", "abs", "root", "loop", "loop/f", "d/here",
         "d/e/top", "d/e/top/out", "d/e/top/in/f", "nothing", "none", "none/f", "f/g", "d//f", "./d/./f", "", "/", "/f", "/d/f", "/../f",
         "/to-d/f", "x" * 300, "d/" * 2100]
RESOLVES = [0, NO_SYMLINKS, BENEATH, IN_ROOT, NO_SYMLINKS | BENEATH, NO_SYMLINKS | IN_ROOT, NO_MAGICLINKS, NO_XDEV | BENEATH]
FLAGS = [os.O_RDONLY, os.O_RDONLY | os.O_NOFOLLOW, O_PATH | os.O_NOFOLLOW, os.O_RDONLY | os.O_DIRECTORY]


def test_paths_lead_where_they_do_on_the_kernels_own(pairs):
    cases = 0
    for path in PATHS:
        for resolve in RESOLVES:
            for flags in FLAGS:
                if path.startswith("/") and resolve in (0, NO_SYMLINKS, NO_MAGICLINKS): continue  # leads to the machine's root
                ours, kernels = (seen(openat2(directory, path, flags, resolve)) for directory in pairs)
                # A link can be opened by O_PATH only, and cannot be read.
                assert ours == kernels, (path, bin(resolve), oct(flags), ours, kernels)
                cases += 1
    print(cases, "calls alike")


def test_what_is_made_is_made_inside(pairs, roots):
    for resolve in (NO_SYMLINKS, BENEATH, IN_ROOT):
        for path in ("new", "d/new2", "to-d/new3", "up", "d/e/top/new4", "../new5", "none/new6", "nothing"):
            for more in (0, os.O_EXCL):
                told = [seen(openat2(d, path, os.O_CREAT | os.O_RDWR | more, resolve, 0o640)) for d in pairs]
                assert told[0] == told[1], (path, bin(resolve), more, told)
        for what in ("", "in", "in/d"):
            told = [sorted(os.listdir(f"{root}/{what}")) for root in roots]
            assert told[0] == told[1], (resolve, what, told)


def test_arguments_that_are_wrong(pairs):
    def how(*words): return struct.pack("Q" * len(words), *words)
    cases = [dict(how=how(0, 0)), dict(how=how(0, 0, 0, 0)), dict(how=how(0, 0, 0, 1)), dict(how=how(0, 0, 0) + b"\0" * 5000),
             dict(how=how(1 << 40, 0, 0)), dict(how=how(0, 0o644, 0)), dict(how=how(os.O_CREAT, 0o200000, 0)), dict(how=how(0, 0, 1 << 10)),
             dict(resolve=BENEATH | IN_ROOT)]
    for case in cases:
        told = [seen(openat2(directory, "f", **case)) for directory in pairs]
        assert told[0] == told[1], (case, told)


def test_file_systems_are_not_left(root):
    inside = os.open(f"{root}/in", os.O_RDONLY)
    outside = os.open("/", os.O_RDONLY)
    relative = root.lstrip("/") + "/in/f"
    assert (got := seen(openat2(HERE, f"{root}/in/f", resolve=NO_XDEV))) == "EXDEV", got
    assert (got := seen(openat2(outside, relative, resolve=NO_XDEV))) == "EXDEV", got
    assert (got := seen(openat2(outside, relative))) == "file in/f", got
    assert (got := seen(openat2(outside, relative, resolve=BENEATH))) == "EXDEV", got
    assert (got := seen(openat2(inside, "d/f", resolve=NO_XDEV))) == "file in/d/f", got
    assert (got := seen(openat2(inside, "../../../etc/passwd", resolve=NO_XDEV))) == "EXDEV", got
    os.symlink("/etc/passwd", f"{root}/leaves")
    assert (got := seen(openat2(HERE, f"{root}/leaves"))).startswith("file root:"), got
    assert (got := seen(openat2(inside, "../leaves", resolve=NO_XDEV))) == "EXDEV", got
    assert (got := seen(openat2(inside, "../leaves", resolve=BENEATH))) == "EXDEV", got
    assert (got := seen(openat2(inside, "../leaves", resolve=NO_SYMLINKS))) == "ELOOP", got
    assert (got := seen(openat2(HERE, f"{root}/in/to-d/f", resolve=NO_SYMLINKS))) == "ELOOP", got
    assert (got := seen(openat2(HERE, f"{root}/in/d/f", resolve=NO_SYMLINKS))) == "file in/d/f", got
    file = os.open(f"{root}/in/f", os.O_RDONLY)
    assert (got := seen(openat2(HERE, f"/proc/self/fd/{file}"))) == "file in/f", got
    assert (got := seen(openat2(HERE, f"/proc/self/fd/{file}", resolve=NO_MAGICLINKS))) == "ELOOP", got
    assert (got := seen(openat2(inside, "f", resolve=CACHED))) == "EAGAIN", got
    os.chdir(f"{root}/in")
    assert (got := seen(openat2(HERE, "d/f", resolve=BENEATH))) == "file in/d/f", got
    assert (got := seen(openat2(HERE, "../out", resolve=BENEATH))) == "EXDEV", got
    os.chdir("/")
    for number in (inside, outside, file): os.close(number)


def main():
    roots = ["/spate/o", sys.argv[1] + "/o"]
    for root in roots: make_tree(root)
    pairs = [os.open(f"{root}/in", os.O_RDONLY) for root in roots]
    assert (got := os.fstat(pairs[0]).st_dev) != os.fstat(pairs[1]).st_dev, got
    test_paths_lead_where_they_do_on_the_kernels_own(pairs)
    test_what_is_made_is_made_inside(pairs, roots)
    test_arguments_that_are_wrong(pairs)
    test_file_systems_are_not_left(roots[0])


main()
