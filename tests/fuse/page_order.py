# SPDX-License-Identifier: Apache-2.0
"""page_order.py FILE: one process writes pieces of a file and reads each back, while others open the file and map it."""
import mmap
import os
import random
import sys
import time

path, size, seconds = sys.argv[1], 600_000, 8
fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
os.truncate(path, size)
others = []


def other(action):
    pid = os.fork()
    if pid != 0:
        return others.append(pid)
    dice = random.Random(len(others))
    while os.getppid() == parent:
        action(dice)
    os._exit(0)


def opens(dice):
    os.close(os.open(path, os.O_RDWR))
    time.sleep(dice.random() / 500)  # the writer must get its turns


def maps(dice):
    file = os.open(path, os.O_RDONLY)
    with mmap.mmap(file, size, mmap.MAP_SHARED, mmap.PROT_READ) as m:
        for _ in range(4):
            m[dice.randrange(size)]
    os.close(file)
    time.sleep(dice.random() / 2000)  # the writer must get its turns


parent = os.getpid()
for action in (opens, opens, maps, maps):
    other(action)
dice = random.Random(77)
end = time.monotonic() + seconds
writes, old = 0, []
try:
    while time.monotonic() < end:
        start = dice.randrange(size - 70_000)
        data = bytes([dice.randrange(1, 256)]) * dice.choice((dice.randrange(1, 100), dice.randrange(1, 60_000)))
        assert os.pwrite(fd, data, start) == len(data), "a short write"
        writes += 1
        got = os.pread(fd, len(data), start)
        wrong = [n for n, (a, b) in enumerate(zip(got, data)) if a != b]
        if wrong:
            old.append(f"write {writes}, [{start}, {start + len(data)}): old bytes from {start + wrong[0]} to {start + wrong[-1] + 1}")
finally:
    for pid in others:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
assert writes > 100, f"only {writes} writes"
# A write is answered although its pages are not dropped yet if that takes longer than 20 ms, as on a busy machine.
assert len(old) * 1000 <= writes, f"{len(old)} of {writes} writes: {old[:5]}"
