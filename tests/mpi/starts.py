#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPI_Init reports in one sentence of each rank why Spate's files cannot be used, and creates no local file. Reasons:
the library for the program's MPI is missing, or another MPI's lies in its place. If all is well it prints nothing."""
from mpi import *
from cluster import Cluster

FAULT = "spate-mpi: no file of Spate can be used, MPI's own functions get them: "


def preloaded(fs, mpi, folder, *words):
    done = run(fs, mpi, 2, programs[mpi], *words, prefix=("env", "LD_PRELOAD=%s/libspate-mpi.so" % folder))
    check(done.stderr.count("begun") == 2, "%s does not begin: %s" % (mpi, done.stderr))
    return done


with Cluster(io=1) as fs:
    fs.up()
    installed = os.path.abspath(BIN + "/../lib")
    programs = {mpi: compiled(mpi, fs.root, "starts.c") for mpi in libraries()}
    for mpi in programs:
        said = preloaded(fs, mpi, installed).stderr
        check("spate-mpi" not in said, "%s, all is well: %s" % (mpi, said))
        folder = os.path.join(fs.root, mpi)
        os.mkdir(folder)
        shutil.copy(installed + "/libspate-mpi.so", folder)
        back = "%s/libspate-mpi-%s.so" % (folder, mpi)
        for other, reason in ((None, "cannot open shared object file"), ({"mpich": "openmpi", "openmpi": "mpich"}[mpi], "not compiled for the program's MPI")):
            if other is not None:
                source = "%s/libspate-mpi-%s.so" % (installed, other)
                if not os.path.exists(source):
                    continue
                shutil.copy(source, back)
            done = preloaded(fs, mpi, folder, "spate:/starts")
            lines = [line for line in done.stderr.splitlines() if line.startswith(FAULT)]
            check(len(lines) == 2 and all(reason in line for line in lines), "%s: %s" % (mpi, done.stderr))
            check(done.stderr.index(FAULT) < done.stderr.index("begun"), "%s, said too late: %s" % (mpi, done.stderr))
            check(done.returncode != 0 and not os.path.exists("spate:"), "%s: a local file was made" % mpi)
    check(not fs.spate("ls", "spate:/"), "a file was made")
    # Without the package there is no libspate-mpi.so.
    for part, file in (("bin", SPATE), ("lib", installed + "/libspate-preload.so")):
        os.makedirs(os.path.join(fs.root, "few", part))
        shutil.copy(file, os.path.join(fs.root, "few", part))
    done = run(fs, "mpich", 2, "true", prefix=(os.path.join(fs.root, "few/bin/spate"), "run", "--mpi", "--"))
    check(done.returncode == 1 and "in the package spate-mpi" in done.stderr, "without libspate-mpi.so: exit %d %s" % (done.returncode, done.stderr))
