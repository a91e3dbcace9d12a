#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""faults.c: a rank that is killed, a server that is killed, a name that is missing on one rank, a full disk. Nothing hangs beyond the
deadline, every rank gets an error class, and the file can be used afterwards."""
from mpi import *
from cluster import Cluster

DEADLINE = {"SPATE_CLIENT_DEADLINE": "2 s"}


def started(fs, mpi, program, *what):
    return subprocess.Popen([SPATE, "run", "--mpi", "--", *command(mpi, 3, program, "spate:", *what)], env=environment(fs, **DEADLINE),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


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

            running = started(fs, mpi, programs[mpi], "server", *way)
            check(running.stdout.readline() == "running\n", "%s: %s" % (mpi, running.stderr.read() if running.poll() is not None else ""))
            fs.kill(3)
            check(running.stdout.readline() == "failed\n", "%s: no failure of all ranks" % mpi)
            fs.up()
            out, err = running.communicate(timeout=60)
            check(running.returncode == 0, "%s, a server killed, %s: exit %d\n%s%s" % (mpi, way, running.returncode, out, err))
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
