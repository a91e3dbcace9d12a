#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file function that an installed MPI library exports is taken over, by both of its names, or known to need no taking."""
import glob
import re

from mpi import *

# A Spate file has a handle of MPI's own (docs of src/mpiio/back).
LEFT = {"File_c2f", "File_f2c", "File_create_errhandler", "File_get_errhandler", "File_set_errhandler", "File_call_errhandler"}


def exported(library, pattern):
    text = subprocess.run(["nm", "-D", "--defined-only", library], check=True, stdout=subprocess.PIPE).stdout.decode()
    return {name for line in text.splitlines() for name in re.findall(pattern, line.split()[-1])}


ours = {prefix: exported(BIN + "/../lib/libspate-mpi.so", r"^%s_((?:File|Register)_\w+)$" % prefix) for prefix in ("MPI", "PMPI")}
check(ours["MPI"] == ours["PMPI"], "not by both names: %s" % (ours["MPI"] ^ ours["PMPI"]))
for mpi in libraries():
    soname = {"mpich": "libmpich.so.12", "openmpi": "libmpi.so.40"}[mpi]
    theirs = exported(glob.glob("/usr/lib/*/" + soname)[0], r"^MPI_(File_\w+|Register_datarep\w*)$")
    check(len(theirs) > 50, "%s exports only %s" % (mpi, theirs))
    check(theirs - LEFT <= ours["MPI"], "%s: not taken over: %s" % (mpi, sorted(theirs - LEFT - ours["MPI"])))
    back = exported("%s/../lib/libspate-mpi-%s.so" % (BIN, mpi), r"^spate_((?:File|Register)_\w+)$")
    check(back == ours["MPI"], "the back for %s has too much or too little: %s" % (mpi, sorted(back ^ ours["MPI"])))
