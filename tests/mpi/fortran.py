#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fortran.f90 by mpif.h, use mpi and use mpi_f08 under every MPI library: the bindings must not go past Spate's functions."""
from mpi import *
from cluster import Cluster

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        if not shutil.which("mpif90." + mpi) or not shutil.which("gfortran"):
            skip("no Fortran compiler (gfortran)")
        for binding in (1, 2, 3):
            program = os.path.join(fs.root, "fortran")
            subprocess.run(["mpif90." + mpi, "-cpp", "-DBINDING=%d" % binding, "-o", program, HERE + "/fortran.f90"], check=True)
            # No local file of this name can be created, so a call that bypasses Spate fails.
            done = run(fs, mpi, 2, program, "spate:")
            check(done.returncode == 0, "%s, binding %d: exit %d\n%s%s" % (mpi, binding, done.returncode, done.stdout, done.stderr))
            size = len(fs.spate("cat", "spate:/fortran"))
            check(size == 2 * 1000 * 4, "%s, binding %d: the file has %d bytes" % (mpi, binding, size))
            fs.spate("rm", "spate:/fortran")
