#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes on two mounts append records of all sizes to one file: append.py MOUNT MOUNT"""
import os
import random
import signal
import subprocess
import sys
import time

ONE, TWO = sys.argv[1:3]
WRITERS = 6
RECORDS = 40

PROGRAM = """
import os, random, sys
writer = int(sys.argv[1])
sizes = random.Random(writer)
f = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
for i in range(int(sys.argv[2])):
    size = sizes.choice([0, 1, 100, 4000, 70000, 300000])
    record = b"%4d %8d %8d" % (writer, i, size) + bytes([writer]) * size
    n = os.write(f, record)
    assert n == len(record), n
"""


def records(data):
    """Yields (writer, number) of each record. All records must be whole."""
    at = 0
    while at < len(data):
        writer, number, size = (int(x) for x in data[at:at + 22].split())
        body = data[at + 22:at + 22 + size]
        assert body == bytes([writer]) * size, f"record {number} of writer {writer} is torn at {at}"
        yield writer, number
        at += 22 + size


def start(writer, count):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(writer), str(count)], cwd=(ONE, TWO)[writer % 2])


def whole_and_in_order():
    children = [start(writer, RECORDS) for writer in range(WRITERS)]
    assert not any(got := [child.wait() for child in children]), got
    for mount in ONE, TWO:
        with open(f"{mount}/log", "rb") as file:
            found = list(records(file.read()))
        assert len(found) == WRITERS * RECORDS, len(found)
        for writer in range(WRITERS):
            assert (got := [n for w, n in found if w == writer]) == list(range(RECORDS)), got


def after_a_link():
    """The kernel computes the position after an append from the size that it knows, which the answer to a link must not make older."""
    for grow in os.ftruncate, lambda f, size: os.write(f, b"a" * size), lambda f, size: os.posix_fallocate(f, 0, size):
        file = os.open(f"{ONE}/linked", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        grow(file, 7696)
        os.link(f"{ONE}/linked", f"{ONE}/link")
        os.write(file, b"b" * 100)
        assert (got := os.lseek(file, 0, os.SEEK_CUR)) == 7796, got
        os.close(file)
        os.unlink(f"{ONE}/linked")
        os.unlink(f"{ONE}/link")


def grown_by(more):
    """Waits until the log has grown by this many bytes."""
    def size():
        return os.stat(f"{TWO}/log").st_size if os.path.exists(f"{TWO}/log") else 0
    wanted, end = size() + more, time.monotonic() + 60
    while size() < wanted:
        assert time.monotonic() < end, "the writers do not get on"
        time.sleep(0.01)


def agreed_size():
    """Returns the size on which both mounts agree. Waits until the mount has finished requests of the killed writers."""
    end = time.monotonic() + 60
    while len(sizes := {os.stat(f"{mount}/log").st_size for mount in (ONE, TWO)}) > 1:
        assert time.monotonic() < end, sizes
        time.sleep(0.01)
    return sizes.pop()


def a_killed_writer_leaves_a_right_size():
    os.unlink(f"{ONE}/log")
    children = [start(writer, 100000) for writer in range(2)]
    grown_by(5_000_000)
    children[0].send_signal(signal.SIGKILL)
    children[0].wait()
    grown_by(2_000_000)
    children[1].send_signal(signal.SIGKILL)
    children[1].wait()
    size = agreed_size()
    after = start(2, 3)
    assert (got := after.wait()) == 0, got
    with open(f"{TWO}/log", "rb") as file:
        data = file.read()
    assert data.startswith(b"   "), data
    assert (got := len(data)) > size, got
    assert (got := [n for w, n in records(data[size:]) if w == 2]) == [0, 1, 2], got


def readers_of_the_same_mount_see_it():
    with open(f"{ONE}/seen", "wb") as file:
        file.write(b"x" * 5000)
    with open(f"{ONE}/seen", "rb", buffering=0) as reader, open(f"{ONE}/seen", "ab", buffering=0) as writer:
        assert (got := reader.read(10000)) == b"x" * 5000, got  # from now on the kernel keeps the last page
        with open(f"{TWO}/seen", "ab") as other:
            other.write(b"other")
        writer.write(b"end")
        assert (got := os.pread(reader.fileno(), 100, 5000)) == b"otherend", got


for test in whole_and_in_order, after_a_link, a_killed_writer_leaves_a_right_size, readers_of_the_same_mount_see_it:
    begin = time.monotonic()
    test()
    print(f"{test.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
