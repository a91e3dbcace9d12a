#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Maps files of which the kernel keeps no pages: maps.py MOUNT OTHER, two mounts of one file system. OTHER has
cache=none."""
import mmap
import os
import sys

MOUNT, OTHER = sys.argv[1], sys.argv[2]
SIZE = 1 << 20


def made(name):
    with open(f"{OTHER}/{name}", "wb") as file:
        file.write(bytes(range(256)) * (SIZE // 256))
    return f"{MOUNT}/{name}"


def at_other(name, offset, size):
    with open(f"{OTHER}/{name}", "rb", buffering=0) as file:
        return os.pread(file.fileno(), size, offset)


def shared(flags):
    file = os.open(made("shared"), os.O_RDWR | flags)
    with mmap.mmap(file, SIZE, mmap.MAP_SHARED) as view:
        assert (got := view[1000:1256]) == bytes(range(1000 % 256, 256)) + bytes(range(1000 % 256)), got
        view[5000:5005] = b"hello"
        view.flush()
        assert (got := at_other("shared", 5000, 5)) == b"hello", got
        # The map shows data that was written past the page cache, and a read past the cache shows data in the map.
        block = mmap.mmap(-1, 4096)
        block[:] = b"w" * 4096
        assert (got := os.pwritev(file, [block], 8192)) == 4096, got
        assert (got := view[8192:12288]) == block[:], got
        view[12288:12292] = b"read"
        assert (got := os.preadv(file, [block], 12288)) == 4096, got
        assert (got := block[:4]) == b"read", got
    os.close(file)
    # Dirty pages reach the servers when the map ends, without msync.
    assert (got := at_other("shared", 12288, 4)) == b"read", got


def private(flags):
    file = os.open(made("private"), os.O_RDONLY | flags)
    with mmap.mmap(file, SIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as view:
        view[0:4] = b"mine"
        assert (got := view[0:5]) == b"mine\4", got
    os.close(file)
    assert (got := at_other("private", 0, 5)) == bytes(range(5)), got


def a_new_map_sees_what_others_have_written(flags):
    file = os.open(made("new"), os.O_RDWR | flags)
    for text in b"one", b"two":
        with open(f"{OTHER}/new", "r+b") as other:
            other.write(text)
        with mmap.mmap(file, SIZE, mmap.MAP_SHARED) as view:
            assert view[:3] == text, view[:3]
    os.close(file)


for case in shared, private, a_new_map_sees_what_others_have_written:
    case(int(sys.argv[3], 0))
