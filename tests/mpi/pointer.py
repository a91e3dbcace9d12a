#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pointer.c in a folder where everybody may write: between two uses of the shared pointer a stranger puts a link in the place of its file, which
leads to another file of the user who runs the program. That file must not be written."""
from mpi import *
from cluster import Cluster, wait_until

SECRET = b"untouched and longer than a pointer"


def put_link(fs):
    """Returns whether the pointer's file was there."""
    found = [name for name in fs.spate("ls", "-a", "spate:/open").decode().split() if name.startswith(".spate-mpi-pointer-")]
    for name in found:
        fs.spate("rm", "spate:/open/" + name)
        fs.spate("ln", "-s", "/secret", "spate:/open/" + name)
    return bool(found)


with Cluster(io=1) as fs:
    fs.up()
    for mpi in libraries():
        program, go = compiled(mpi, fs.root, "pointer.c"), os.path.join(fs.root, "go-" + mpi)
        fs.spate("mkdir", "spate:/open")
        fs.spate("put", "spate:/secret", input=SECRET)
        with started(fs, mpi, 2, program, "spate:/open", go) as running:
            wait_until(lambda: put_link(fs), "rank 0 uses the shared pointer", 200)
            with open(go, "w"):
                pass
            done = running.end(240)
        check(done.returncode == 0, "%s: exit %d\n%s%s" % (mpi, done.returncode, done.stdout, done.stderr))
        check("refused" in done.stdout, "%s: rank 1 has followed the link: %s" % (mpi, done.stdout))
        check(fs.spate("cat", "spate:/secret") == SECRET, mpi + ": another file of the user was written")
        fs.spate("rm", "-r", "spate:/open", "spate:/secret")
    fs.fsck()
