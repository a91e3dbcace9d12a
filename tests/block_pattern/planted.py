#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checker of block patterns finds what it exists to find: a write that was acknowledged and not done, two exchanged
blocks of a datafile, a block with older contents, a changed byte."""
import os
import shutil

from block_pattern import CLIENTS, BlockPattern, check, cluster, place


def finds(pattern, client, *words, clients=CLIENTS):
    """Runs a client that must end with a wrong mark. Returns its message."""
    process = pattern.start(client, *words, clients=clients)
    out = process.communicate(timeout=120)[0]
    check(process.returncode == 1 and out.startswith("WRONG file "), "not found: exit %d, said: %s" % (process.returncode, out))
    return out


def swapped(data):
    return data[4096:] + data[:4096]


def changed(data):
    return data[:5000] + bytes([data[5000] ^ 1]) + data[5001:]


def written_blocks(fs):
    """Returns a datafile and the offsets of two written blocks in it that differ."""
    for file in sorted(fs.datafiles(2), key=os.path.getsize, reverse=True):  # large cells: they are rewritten often
        with open(file, "rb") as f:
            data = f.read()
        for at in range(0, len(data) - 8191, 4096):
            pair = data[at:at + 8192]
            if all(pair[i:i + 8] != bytes(8) for i in range(0, 8192, 8)):
                return file, at, pair
    raise AssertionError("nothing was written")


def replace(file, at, data):
    with open(file, "r+b") as f:
        f.seek(at)
        f.write(data)


folder = place()
try:
    with cluster(1, folder) as fs:
        pattern = BlockPattern(fs, 7, p2p=True)
        pattern.set_up()
        pattern.ended(pattern.start(0, "least=400", clients=1), 0)
        file, at, old = written_blocks(fs)
        # Rewrites whole cells until those two blocks are newer.
        for _ in range(20):
            pattern.ended(pattern.start(0, "least=400", clients=1), 0)
            with open(file, "rb") as f:
                f.seek(at)
                now = f.read(len(old))
            if all(now[i:i + 8] != old[i:i + 8] for i in range(0, len(old), 8)):
                break
        for what, wrong in (("swapped", swapped(now)), ("older", old), ("changed", changed(now))):
            check(wrong != now, what + ": nothing was planted")
            replace(file, at, wrong)
            finds(pattern, 0, clients=0)
            replace(file, at, now)
        pattern.ended(pattern.start(0, clients=0), 0)  # everything is right again
        # The error is found while clients work, not only at the end. This comes last, since acknowledged data is lost
        # afterwards.
        finds(pattern, 0, "seconds=60", "drop=20", clients=1)
finally:
    shutil.rmtree(folder, ignore_errors=True)
