#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parallel HDF5, NetCDF-4 and PnetCDF as the distribution has them, under the MPI that each is built for, by the plain path below the prefix
and, where the library allows it, by a spate: name. Each file is then copied out and read without MPI, if the tools for that are there."""
import subprocess

from mpi import *
from cluster import Cluster

# Source, its pkg-config package, its MPI, and whether it takes a spate: name.
PROGRAMS = (("hdf5.c", "hdf5-mpich", "mpich", True), ("hdf5.c", "hdf5-openmpi", "openmpi", True),
            ("pnetcdf.c", "pnetcdf", "openmpi", False), ("netcdf.c", "netcdf-mpi", "openmpi", False))


def flags(package):
    """Returns the compiler flags, or None if the library is not installed."""
    done = subprocess.run(["pkg-config", "--cflags", "--libs", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if done.returncode != 0:
        return None
    # Debian's package of NetCDF names a folder that differs from the folder of its headers.
    prefix = subprocess.run(["pkg-config", "--variable=prefix", package], stdout=subprocess.PIPE, text=True).stdout.strip()
    return ["-I%s/include" % prefix, *done.stdout.split()]


ran = []
with Cluster(io=3) as fs:
    fs.up()
    for source, package, mpi, takes_name in PROGRAMS:
        found = flags(package)
        if found is None or mpi not in libraries():
            print("left out: %s is not installed" % package)
            continue
        program = compiled(mpi, fs.root, source, *found)
        for ranks in (1, 2, 3):
            for prefix in ("/spate/", "spate:/") if takes_name else ("/spate/",):
                name = "%s-%d" % (package, ranks)
                done = run(fs, mpi, ranks, program, prefix + name)
                check(done.returncode == 0, "%s, %d ranks, %s: exit %d\n%s%s" % (package, ranks, prefix, done.returncode, done.stdout, done.stderr))
                if source == "hdf5.c" and shutil.which("h5dump"):
                    out = os.path.join(fs.root, name)
                    fs.spate("cp", "spate:/" + name, out)
                    shown = subprocess.run(["h5dump", "-H", out], stdout=subprocess.PIPE, text=True)
                    check(shown.stdout.count("DATASET") == 8, "h5dump of %s: %s" % (name, shown.stdout))
                fs.spate("rm", "spate:/" + name)
        ran.append(package)
    fs.fsck()
if not ran:
    skip("no parallel HDF5, NetCDF or PnetCDF")
print("ran: " + ", ".join(ran))
