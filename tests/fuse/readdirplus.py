#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One directory on two mounts: one lists it and looks at what it finds while the other makes, renames and removes names there.

  readdirplus.py LISTED CHANGED SEEN -- UPGRADE...   SEEN: the same on a third mount; UPGRADE: replaces what serves LISTED
"""
import os
import random
import subprocess
import sys
import threading

LISTINGS = 4
OTHERS = 40


def fail(text):
    print(text)
    os._exit(1)


def change(folder, done):
    """Changes names that begin with "x" only."""
    draw = random.Random(5)
    while not done.is_set():
        name, other = (os.path.join(folder, f"x{draw.randrange(OTHERS)}") for _ in range(2))
        try:
            what = draw.randrange(4)
            if what == 0:
                os.unlink(name)
            elif what == 1:
                os.rename(name, other)
            else:
                with open(name, "w", encoding="ascii") as file:
                    file.write("y" * draw.randrange(100))
        except FileNotFoundError:
            pass


def check_listing(folder, standing, middle=None):
    """Reads the directory to its end and looks at each entry. Calls `middle` after the first entries."""
    seen = []
    with os.scandir(folder) as entries:
        for entry in entries:
            seen.append(entry.name)
            if middle is not None and len(seen) == 3:
                middle()
    for name in seen:
        try:
            size = os.stat(os.path.join(folder, name), follow_symlinks=False).st_size
        except FileNotFoundError:
            size = None
        if name in standing and size != standing[name]:
            fail(f"{name} has {size} bytes, should have {standing[name]}")
    kept = sorted(name for name in seen if name in standing)
    if kept != sorted(standing):
        fail(f"{len(kept)} entries of {len(standing)} names that stood all along")
    if len(set(seen)) != len(seen):
        fail("a name is listed twice")


def main():
    listed, changed, third = sys.argv[1:4]
    upgrade = sys.argv[5:]
    standing = {name: os.lstat(os.path.join(third, name)).st_size for name in os.listdir(third)}
    done = threading.Event()
    changer = threading.Thread(target=change, args=(changed, done))
    changer.start()
    try:
        for i in range(LISTINGS):
            check_listing(listed if i % 2 == 0 else third, standing)
        check_listing(listed, standing, lambda: subprocess.run(upgrade, check=True, stdout=subprocess.DEVNULL))
        check_listing(listed, standing)
    finally:
        done.set()
        changer.join()


main()
