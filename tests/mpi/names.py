#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every file function that an installed MPI library exports is taken over, by both of its names, or known to need no taking. The bindings
for Fortran call these names and nothing else."""
import glob
import re

from mpi import *

# A Spate file has a handle of MPI's own (docs of src/mpiio/back).
# The libraries of each MPI's bindings for Fortran. What they use of their own is no way past the functions in C.
FORTRAN = {"mpich": ("libmpichfort.so.12",), "openmpi": ("libmpi_mpifh.so.40", "libmpi_usempif08.so.40", "libmpi_usempi_ignore_tkr.so.40")}
OWN = re.compile(r"^(ompi_(file|register)_\w+_f|p?mpi_(file|register)_\w+_|ompi_mpi_file_null|ompi_registered_datareps)$")
LEFT = {"File_c2f", "File_f2c", "File_create_errhandler", "File_get_errhandler", "File_set_errhandler", "File_call_errhandler"}


def exported(library, pattern, which="--defined-only"):
    text = subprocess.run(["nm", "-D", which, library], check=True, stdout=subprocess.PIPE).stdout.decode()
    return {name for line in text.splitlines() for name in re.findall(pattern, line.split()[-1])}


ours = {prefix: exported(BIN + "/../lib/libspate-mpi.so", r"^%s_((?:File|Register)_\w+)$" % prefix) for prefix in ("MPI", "PMPI")}
check(ours["MPI"] == ours["PMPI"], "not by both names: %s" % (ours["MPI"] ^ ours["PMPI"]))
for mpi in libraries():
    soname = {"mpich": "libmpich.so.12", "openmpi": "libmpi.so.40"}[mpi]
    theirs = exported(glob.glob("/usr/lib/*/" + soname)[0], r"^MPI_(File_\w+|Register_datarep\w*)$")
    check(len(theirs) > 50, "%s exports only %s" % (mpi, theirs))
    check(theirs - LEFT <= ours["MPI"], "%s: not taken over: %s" % (mpi, sorted(theirs - LEFT - ours["MPI"])))
    # Each binding for Fortran calls the functions in C by their names.
    found = [path for name in FORTRAN[mpi] for path in glob.glob("/usr/lib/*/" + name)]
    called = {name for path in found for name in exported(path, r"^\w*(?:[Ff]ile|datarep)\w*$", "--undefined-only") if not OWN.match(name)}
    plain = {re.sub("^P?MPI_", "", name) for name in called}
    check(all(re.match("P?MPI_", name) for name in called), "%s: Fortran calls %s" % (mpi, sorted(called)))
    check(plain <= ours["MPI"] | LEFT, "%s: Fortran calls what is not taken over: %s" % (mpi, sorted(plain - ours["MPI"] - LEFT)))
    check(not found or {name for name in theirs - LEFT if not name.endswith("_c")} <= plain,
          "%s: Fortran has another way to %s" % (mpi, sorted(theirs - LEFT - plain)))
    back = exported("%s/../lib/libspate-mpi-%s.so" % (BIN, mpi), r"^spate_((?:File|Register)_\w+)$")
    check(back == ours["MPI"], "the back for %s has too much or too little: %s" % (mpi, sorted(back ^ ours["MPI"])))
