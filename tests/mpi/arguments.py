#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""arguments.c on 1 and 3 ranks under every MPI library."""
from mpi import *
from cluster import Cluster

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        program = compiled(mpi, fs.root, "arguments.c")
        for ranks in (1, 3):
            done = run(fs, mpi, ranks, program, "spate:")
            check(done.returncode == 0, "%s, %d ranks: exit %d\n%s%s" % (mpi, ranks, done.returncode, done.stdout, done.stderr))
    fs.fsck()
