#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""types.c: a number of random datatypes under every MPI library, also with MPI_THREAD_MULTIPLE, which lets threads of the library make collective
accesses. Arguments: first seed, number of seeds."""
from mpi import *
from cluster import Cluster

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        program = compiled(mpi, fs.root, "types.c")
        for ranks, more in ((1, []), (3, []), (3, ["multiple"])):
            done = run(fs, mpi, ranks, program, "spate:", *sys.argv[1:3], *more, timeout=1000)
            check(done.returncode == 0, "%s, %d ranks, %s: exit %d\n%s%s" % (mpi, ranks, more, done.returncode, done.stdout, done.stderr))
    fs.fsck()
