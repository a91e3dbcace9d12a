#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads of 1 MiB by Python beside the C API, and beside Python's own file calls on the same storage, by turns. Reads into a
buffer have at least 0.85 of the C API's speed: the median of the turns, of which each has both one after the other."""
import os
import statistics
import subprocess
import time

import spate

SIZE, PIECES, COUNT, TURNS = 1 << 20, 64, 400, 15
C_PROGRAM = os.environ["SPATE_BIN"] + "/python_reads"


def timed(read):
    read(0)
    begin = time.monotonic_ns()
    for i in range(COUNT):
        read(i % PIECES * SIZE)
    return (time.monotonic_ns() - begin) / COUNT


def by_c(path):
    return float(subprocess.run([C_PROGRAM, path, str(SIZE), str(COUNT)], check=True, stdout=subprocess.PIPE).stdout)


def buffered(opened):
    def read(offset):
        opened.seek(offset)
        assert (got := len(opened.read(SIZE))) == SIZE, got

    return read


def main():
    data = os.urandom(SIZE * PIECES)
    local = os.environ["SPATE_TEST_FOLDER"] + "/local"
    with open(local, "wb") as file:
        file.write(data)
    buffer = bytearray(SIZE)
    with spate.connect() as fs, open(local, "rb", 0) as own:
        with fs.open("/speed", "wb") as file:
            file.write(data)
        with fs.open_file("/speed") as file, fs.open("/speed", "rb") as opened:
            kinds = {
                "C API": lambda: by_c("/speed"),
                "pread_into": lambda: timed(lambda at: file.pread_into(buffer, at)),
                "pread": lambda: timed(lambda at: file.pread(SIZE, at)),
                "open().read": lambda: timed(buffered(opened)),
                "os.preadv, local": lambda: timed(lambda at: os.preadv(own.fileno(), [buffer], at)),
            }
            turns = [{name: measure() for name, measure in kinds.items()} for _ in range(TURNS)]
    for name in kinds:
        share = statistics.median(turn["C API"] / turn[name] for turn in turns)
        print("%-18s %7.1f us a read of 1 MiB (median), %.2f of the C API's speed" % (name, statistics.median(turn[name] for turn in turns) / 1000, share))
        if name == "pread_into":
            assert share >= 0.85, "slower than 0.85 of the C API"


main()
