#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""In a program that is linked statically with MPICH, each rank reports that MPI's own file functions are used. A
program without MPI reports nothing."""
import glob
import subprocess

from mpi import *
from cluster import Cluster

archive = glob.glob("/usr/lib/*/libmpich.a")
"mpich" in libraries() and archive or skip("no libmpich.a")
include = subprocess.run(["mpicc.mpich", "-show"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
include = [word for word in include if word.startswith("-I")]

with Cluster(io=1) as fs:
    fs.up()
    program = os.path.join(fs.root, "static")
    built = subprocess.run(["gcc", "-o", program, os.path.join(HERE, "forms.c"), *include, archive[0], "-lhwloc", "-lfabric", "-lucp", "-luct", "-lucs", "-lm"],
                           stderr=subprocess.PIPE, text=True)
    if built.returncode != 0:
        skip("libmpich.a cannot be linked here: " + built.stderr[-300:])
    done = run(fs, "mpich", 2, program, "/spate")
    check(done.stderr.count("spate-mpi: the program is linked statically with MPI") == 2, "what the ranks say: " + done.stderr)
    done = run(fs, "mpich", 2, "cat", "/dev/null")
    check("spate-mpi" not in done.stderr, "said of cat: " + done.stderr)
