#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PnetCDF's own parallel tests, from Debian's source package, which is built with each MPI: its "make ptest" on 2 ranks, below /spate.
Debian packages the library for Open MPI only. The checks of what was written (ncvalidator) read it below /spate, too."""
import re

from mpi import *
from cluster import Cluster
from sources import built, need, unpacked

# The folder of test/, the parallel target of its Makefile.am, and how many programs print "pass" or "skip" there.
GROUPS = (("testcases", "ptest2", 44), ("nonblocking", "ptest2", 11), ("header", "ptest2", 1), ("C", "ptest", 2), ("cdf_format", "ptest", 3))

need("autoreconf", "libtoolize", "m4", "make")
ran = []
with Cluster(io=3) as fs:
    fs.up()
    tree = unpacked("pnetcdf", "pnetcdf-", fs.root)
    built(os.path.join(fs.root, "prepared"), ["autoreconf", "-i", tree])
    for mpi in libraries():
        compiler = "mpicc." + mpi
        place = built(os.path.join(fs.root, mpi), [tree + "/configure", "MPICC=" + compiler, "CFLAGS=-O1 -w", "--disable-fortran", "--disable-cxx", "--quiet"],
                      ["make", "-s", "-j2"], ["make", "-s", "-j2", "tests"])
        for group, target, programs in GROUPS:
            make = ["make", "-s", "-C", "%s/test/%s" % (place, group), target, "TESTOUTDIR=/spate", "TESTSEQRUN=", "TESTMPIRUN=" + " ".join(command(mpi, 2))]
            done = subprocess.run([SPATE, "run", "--mpi", "--", *make], env=environment(fs), timeout=1800, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  stdin=subprocess.DEVNULL, start_new_session=True)
            said = done.stdout.decode(errors="replace")
            check(done.returncode == 0 and "fail" not in said, "%s, %s: exit %d\n%s" % (mpi, group, done.returncode, said[-4000:]))
            check(len(re.findall(r"\b(?:pass|skip)$", said, re.M)) == programs, "%s, %s: other programs than %d\n%s" % (mpi, group, programs, said))
            check("spate-mpi: no file of Spate" not in said, "%s, %s: %s" % (mpi, group, said))
            ran.append("%s %s" % (mpi, group))
            print("passed: " + ran[-1], flush=True)
        files = fs.spate("ls", "spate:/").decode().split()
        check("put_all_kinds.nc5" in files and "column_wise.nc" in files, "the programs wrote elsewhere: %s" % files)
        for file in files:
            fs.spate("rm", "spate:/" + file)
    fs.fsck()
