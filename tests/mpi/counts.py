#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""counts.c on 1 and 3 ranks under every MPI library: more than 2^31 bytes in one access. Needs 5 GiB of memory and of storage."""
from mpi import *
from cluster import Cluster

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        program = compiled(mpi, fs.root, "counts.c")
        for ranks in (1, 3):
            done = run(fs, mpi, ranks, program, "spate:", timeout=600)
            check(done.returncode == 0, "%s, %d ranks: exit %d\n%s%s" % (mpi, ranks, done.returncode, done.stdout, done.stderr))
    fs.fsck()
