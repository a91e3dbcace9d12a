#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mpiio.c on 1, 2 and 4 ranks under every MPI library: below the prefix, by spate: names, and linked instead of preloaded."""
import json

from mpi import *
from cluster import Cluster

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        program = compiled(mpi, fs.root, "mpiio.c")
        for ranks, prefix in ((1, "/spate"), (2, "/spate"), (4, "spate:")):
            done = run(fs, mpi, ranks, program, prefix)
            check(done.returncode == 0, "%s, %d ranks: exit %d\n%s%s" % (mpi, ranks, done.returncode, done.stdout, done.stderr))
            # One message reports a wrong hint, not one from every rank.
            check(done.stderr.count("cb_buffer_size=many is ignored: it must be a number from 1 to 1073741824\n") == 1, "the wrong hint: " + done.stderr)
            shown = fs.spate("getstripe", "spate:/hints").decode()
            check("3 targets" in shown, "striping_factor=3 became: " + shown)
            check("varstrip:64 KiB,4 KiB,8 KiB" in shown, "the distribution became: " + shown)
            fs.spate("rm", "spate:/hints")
            left = fs.spate("ls", "-a", "spate:/").decode().split()
            check(not [name for name in left if name not in (".", "..")], "files left behind: %s" % left)
    # Linked before the MPI library, Spate's library works without `spate run`. Linked behind it, it reports that it
    # cannot work.
    folder = os.path.abspath(BIN + "/../lib")
    for mpi in libraries():
        own = {"mpich": "-lmpich", "openmpi": "-lmpi"}[mpi]
        for order, exit in ((["-lspate-mpi", own], 0), ([own, "-lspate-mpi"], None)):
            program = compiled(mpi, fs.root, "mpiio.c", "-L" + folder, "-Wl,-rpath," + folder, "-Wl,--no-as-needed", *order)
            done = run(fs, mpi, 2, program, "spate:", prefix=(), env={"SPATE_FS": fs.dir})
            if exit == 0:
                check(done.returncode == 0, "%s, linked: %s%s" % (mpi, done.stdout, done.stderr))
                fs.spate("rm", "spate:/hints")
            else:
                check(done.returncode != 0 and "no file of Spate can be used: link with -lspate-mpi before MPI" in done.stderr,
                      "%s, linked in the wrong order: %s%s" % (mpi, done.stdout, done.stderr))
    fs.fsck()
