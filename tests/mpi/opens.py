#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""opens.c on few and on many ranks: a rank whose data only aggregators read and write does not even connect to the meta server. Nonblocking collective
accesses are also made by aggregators if the program has MPI_THREAD_MULTIPLE. The automatic choice tries both ways: then each rank connects.
Argument: on how many ranks data moves by aggregators that the program demands; the automatic choice needs 16 for two phases."""
import re
import sys

from mpi import *
from cluster import Cluster

AGGREGATORS = 2
MANY = int(sys.argv[1])


def connections(fs):
    """Returns how many connections the meta server has accepted, including that of this question."""
    told = fs.spate("stats", "1", "--prometheus").decode()
    return sum(int(n) for n in re.findall(r"^spate_bmi_connections_accepted_total\{[^}]*\} (\d+)$", told, re.M))


with Cluster(io=3) as fs:
    fs.up("--tcp-only")
    for mpi in libraries():
        program = compiled(mpi, fs.root, "opens.c")
        for ranks, how, least, most in ((4, "together", 1, AGGREGATORS), (MANY, "together", 1, AGGREGATORS), (MANY, "started", 1, AGGREGATORS), (8, "alone", 8, 8),
                                       (16, "1", 1, AGGREGATORS), (16, "2", 16, 16)):
            before = connections(fs)
            done = run(fs, mpi, ranks, program, "spate:/opens", how)
            check(done.returncode == 0, "%s, %s: exit %d\n%s%s" % (mpi, how, done.returncode, done.stdout, done.stderr))
            made = connections(fs) - before - 1
            check(least <= made <= most, "%s, %s: %d connections of %d ranks" % (mpi, how, made, ranks))
            fs.spate("rm", "spate:/opens")
    fs.fsck()
