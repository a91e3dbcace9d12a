#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faults.c: a rank that is killed, a server that is killed, a name that is missing on one rank, a full disk. Nothing hangs beyond the
deadline, every rank gets an error class, and the file can be used afterwards."""
from mpi import *
from cluster import Cluster, wait_until

DEADLINE = {"SPATE_CLIENT_DEADLINE": "2 s"}
# Every write asks the servers. Under a lease of a server the ranks write by themselves, and do not notice its death.
ASKED = {**DEADLINE, "SPATE_CLIENT_BYPASS": "off"}


def lent(fs, server):
    """Returns whether clients hold leases of the io server."""
    folder = fs.target(server) + "/leases"
    return os.path.isdir(folder) and os.listdir(folder) != []


def usable(fs, mpi):
    """Checks that another program can write and read the same file. A name that only one rank has is an error there,
    too."""
    for what in ("usable", "missing"):
        done = run(fs, mpi, 3, programs[mpi], "spate:", what, timeout=60)
        check(done.returncode == 0, "%s, afterwards, %s: %s%s" % (mpi, what, done.stdout, done.stderr))
    fs.spate("rm", "spate:/faults")


programs = {}
with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        programs[mpi] = compiled(mpi, fs.root, "faults.c")

        for way in ([], ["nonblocking"]):
            done = run(fs, mpi, 3, programs[mpi], "spate:", "killed", *way, timeout=60, env=DEADLINE)
            check(done.returncode != 0, "%s: a killed rank ended well" % mpi)
            usable(fs, mpi)

            with started(fs, mpi, 3, programs[mpi], "spate:", "server", *way, env=ASKED) as running:
                running.line("running")
                fs.kill(3)
                running.line("failed")
                fs.up()
                done = running.end()
            check(done.returncode == 0, "%s, a server killed, %s: exit %d\n%s%s" % (mpi, way, done.returncode, done.stdout, done.stderr))
            usable(fs, mpi)

            stop = os.path.join(fs.root, "stop")
            with started(fs, mpi, 3, programs[mpi], "spate:", "leases", stop, *way, env=DEADLINE) as running:
                running.line("running")
                wait_until(lambda: lent(fs, 3) or running.poll() is not None, "leases of the server")
                fs.kill(3)
                fs.up()
                open(stop, "w").close()
                done = running.end()
            os.unlink(stop)
            check(done.returncode == 0, "%s, a server killed that had given leases, %s: exit %d\n%s%s" % (mpi, way, done.returncode, done.stdout, done.stderr))
            usable(fs, mpi)
    fs.fsck()
    fs.spate("down", "-q")

# One of three disks is small.
with Cluster(io=3) as fs:
    fs.up()
    fs.spate("down", "-q")
    small = fs.target(4)
    os.rename(small, small + ".kept")
    os.makedirs(small)
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16M,mode=0700", "spate-test", small],
                                          stderr=subprocess.DEVNULL).returncode != 0:
        skip("a small tmpfs cannot be mounted here (needs root)")
    try:
        subprocess.run(["cp", "-a", small + ".kept/.", small], check=True)
        fs.up()
        for mpi in libraries():
            programs[mpi] = compiled(mpi, fs.root, "faults.c")
            for way in ([], ["nonblocking"]):
                done = run(fs, mpi, 3, programs[mpi], "spate:", "full", *way)
                check(done.returncode == 0 and "full" in done.stdout, "%s, full disk, %s: exit %d\n%s%s" % (mpi, way, done.returncode, done.stdout, done.stderr))
                usable(fs, mpi)
        fs.spate("down", "-q")
    finally:
        subprocess.run(["umount", "-l", small], check=True)
