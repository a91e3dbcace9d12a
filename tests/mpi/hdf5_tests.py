#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HDF5's own parallel tests, from Debian's source package, against the HDF5 library that is installed for each MPI."""
import re
import subprocess

from mpi import *
from cluster import Cluster
from sources import unpacked

# The tests in testpar/Makefile.am that test a file by MPI-IO. t_bigio needs 32 GiB; t_cache and t_shapesame take an
# hour.
PROGRAMS = ("t_mpi", "testphdf5", "t_init_term", "t_filters_parallel")


def prepared(tree):
    with open(tree + "/test/H5srcdir_str.h.in") as shape, open(tree + "/test/H5srcdir_str.h", "w") as header:
        header.write(shape.read().replace("@srcdir@", "."))
    return tree


def sources(tree, program):
    with open(tree + "/testpar/Makefile.am") as makefile:
        named = re.search(r"^%s_SOURCES=((?:.*\\\n)*.*)" % program, makefile.read(), re.M)
    return named[1].replace("\\", " ").split() if named else [program + ".c"]


def built(tree, mpi, program):
    """Builds the tests. Returns None if this HDF5 is not installed."""
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "hdf5-" + mpi], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode != 0:
        return None
    out = os.path.join(tree, "%s.%s" % (program, mpi))
    # The installed headers come before those of the tree, which lacks H5pubconf.h.
    flags = found.stdout.split()
    subprocess.run(["mpicc." + mpi, "-w", "-O1", "-I.", "-I../test", *[f for f in flags if f.startswith("-I")], "-I../src", *sources(tree, program),
                    "../test/h5test.c", "../test/testframe.c", "-o", out, *[f for f in flags if not f.startswith("-I")], "-lm"],
                   cwd=tree + "/testpar", check=True)
    return out


ran = 0
with Cluster(io=3) as fs:
    fs.up()
    tree = prepared(unpacked("hdf5", "hdf5-", fs.root))
    os.chdir(fs.root)  # t_init_term leaves a file in its working directory
    for mpi in libraries():
        for name in sys.argv[1:] or PROGRAMS:
            program = built(tree, mpi, name)
            if program is None:
                print("left out: hdf5-%s is not installed" % mpi)
                break
            # Thousands of collective calls: more ranks than processors, all polling, would take longer than a test may.
            for ranks in (2,) if name == "testphdf5" else (2, 3):
                done = run(fs, mpi, ranks, program, timeout=900, env={"HDF5_PARAPREFIX": "/spate", "HDF5_ALARM_SECONDS": "900"})
                said = done.stdout + done.stderr
                check(done.returncode == 0, "%s, %d ranks, %s: exit %d\n%s" % (mpi, ranks, name, done.returncode, said[-4000:]))
                check("*FAILED*" not in said, "%s, %d ranks, %s:\n%s" % (mpi, ranks, name, said[-4000:]))
                print("passed: %s %s %d" % (mpi, name, ranks), flush=True)
                ran += 1
    fs.fsck()
if ran == 0:
    skip("no parallel HDF5")
