#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nonblocking.c on 2 ranks under every MPI library, in programs with one thread in MPI and with several. The io servers
stand still while the program starts accesses; the accesses complete while the program is outside of MPI."""
import signal

from mpi import *
from cluster import Cluster, wait_until

RANKS, N = 2, 1 << 20


def appeared(folder, what):
    return all(os.path.exists("%s/%s.%d" % (folder, what, rank)) for rank in range(RANKS))


def mark(folder, what):
    open(os.path.join(folder, what), "w").close()


with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        program = compiled(mpi, fs.root, "nonblocking.c")
        for level in ("single", "multiple"):
            folder = os.path.join(fs.root, mpi + level)
            os.mkdir(folder)
            with started(fs, mpi, RANKS, program, "spate:", folder, level) as running:
                wait_until(lambda: appeared(folder, "before") or running.poll() is not None, "the program to begin", 60)
                try:
                    fs.kill(2, 3, 4, sig=signal.SIGSTOP)
                    mark(folder, "stopped")
                    wait_until(lambda: appeared(folder, "started") or running.poll() is not None, "the accesses to be started", 60)
                finally:
                    fs.kill(2, 3, 4, sig=signal.SIGCONT)
                if running.poll() is None:
                    wait_until(lambda: fs.spate("cat", "spate:/computes")[:RANKS * N] == b"a" * N + b"b" * N, "the bytes of the program that is not in MPI", 60)
                mark(folder, "go")
                done = running.end(120)
            check(done.returncode == 0, "%s, %s: exit %d\n%s%s" % (mpi, level, done.returncode, done.stdout, done.stderr))
            for name in ("computes", "many", "freed", "failures", "first", "second"):
                fs.spate("rm", "spate:/" + name)
    fs.fsck()
