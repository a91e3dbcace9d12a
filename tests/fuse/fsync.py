#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each way to ask for durable data makes the io server sync: fsync.py MOUNT CACHE SPATE"""
import mmap
import os
import subprocess
import sys

MOUNT, CACHE, SPATE = sys.argv[1:4]
BLOCK = mmap.mmap(-1, 4096)
BLOCK.write(b"x" * 4096)


def syncs():
    """Returns how many syncs of a datafile the io server has answered."""
    told = subprocess.run([SPATE, "stats", "2", "--prometheus"], check=True, capture_output=True, text=True).stdout
    return sum(int(line.split()[1]) for line in told.splitlines()
               if line.startswith("spate_rpc_request_ns_count") and 'op="datafile_flush"' in line)


def expect_sync(what, action):
    before = syncs()
    action()
    assert syncs() > before, f"cache={CACHE}: {what} did not sync"


def path(name):
    return f"{MOUNT}/{CACHE}-{name}"


def fsync_through_another_descriptor():
    writer = os.open(path("other"), os.O_RDWR | os.O_CREAT, 0o666)
    other = os.open(path("other"), os.O_RDWR)
    os.pwrite(writer, b"data", 0)
    expect_sync("fsync through another descriptor", lambda: os.fsync(other))
    os.close(writer)
    os.close(other)


def fsync_after_close_and_reopen():
    writer = os.open(path("again"), os.O_RDWR | os.O_CREAT, 0o666)
    os.pwrite(writer, b"data", 0)
    os.close(writer)
    later = os.open(path("again"), os.O_RDWR)
    expect_sync("fsync after close and reopen", lambda: os.fsync(later))
    os.close(later)


def msync_of_pages():
    first = os.open(path("pages"), os.O_RDWR | os.O_CREAT, 0o666)
    os.ftruncate(first, 8192)
    os.fsync(first)
    second = os.open(path("pages"), os.O_RDWR)
    pages = mmap.mmap(second, 8192)
    pages[100:104] = b"data"
    expect_sync("fsync of pages that were mapped through another descriptor", lambda: os.fsync(first))
    pages[4196:4200] = b"data"
    expect_sync("msync", pages.flush)
    pages.close()
    os.close(first)
    os.close(second)


def synchronous_writes():
    ways = {"O_DSYNC": os.O_DSYNC, "O_SYNC": os.O_SYNC, "O_DSYNC with O_DIRECT": os.O_DSYNC | os.O_DIRECT,
            "O_SYNC with O_APPEND": os.O_SYNC | os.O_APPEND}
    for what, flags in ways.items():
        file = os.open(path(what.replace(" ", "-")), os.O_WRONLY | os.O_CREAT | flags, 0o666)
        expect_sync(what, lambda file=file: os.write(file, BLOCK))
        os.close(file)
    file = os.open(path("flag"), os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o666)
    expect_sync("RWF_DSYNC with O_DIRECT", lambda: os.pwritev(file, [BLOCK], 0, os.RWF_DSYNC))
    os.close(file)


fsync_through_another_descriptor()
fsync_after_close_and_reopen()
if CACHE != "none":
    msync_of_pages()
synchronous_writes()
