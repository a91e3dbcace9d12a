#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memory.c on 4 ranks under every MPI library. docs/mpi-io.md says how much memory a collective access needs, as a multiple of cb_buffer_size and
a fixed part. The test takes both numbers from there."""
import re

from mpi import *
from cluster import Cluster

MIB = 1 << 20

with open(os.environ["SPATE_SOURCE"] + "/docs/mpi-io.md") as page:
    times, fixed = map(int, re.search(r"needs at most (\d+) times as much, and\s+(\d+) MiB", page.read()).groups())

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        program = compiled(mpi, fs.root, "memory.c")
        for what, buffers in (("pages", (MIB, 4 * MIB)), ("bytes", (4 * MIB,)), ("irregular", (4 * MIB,)), ("same", (4 * MIB,))):
            for buffer in buffers:
                done = run(fs, mpi, 4, program, "spate:", str(buffer), what)
                check(done.returncode == 0, "%s, %s: exit %d\n%s%s" % (mpi, what, done.returncode, done.stdout, done.stderr))
                most = times * buffer + fixed * MIB
                check(0 <= int(done.stdout) <= most, "%s, %s, a buffer of %d bytes: %s bytes more, at most %d are promised" % (mpi, what, buffer, done.stdout.strip(), most))
    fs.fsck()
