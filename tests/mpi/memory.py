#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""memory.c on 4 ranks under every MPI library."""
from mpi import *
from cluster import Cluster

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        done = run(fs, mpi, 4, compiled(mpi, fs.root, "memory.c"), "spate:")
        check(done.returncode == 0, "%s: exit %d\n%s%s" % (mpi, done.returncode, done.stdout, done.stderr))
        fs.spate("rm", "spate:/memory")
    fs.fsck()
