#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""forms.c under every MPI library, on as many ranks as the arguments say (default: 2), alone and below a profiling library. "long" as
the last argument: also more bytes in one call than an int counts."""
import re
import subprocess

from mpi import *
from cluster import Cluster

more = [word for word in sys.argv[1:] if word == "long"]
counts = [int(word) for word in sys.argv[1:] if word != "long"] or [2]

with Cluster(io=3) as fs:
    fs.up()
    for mpi in libraries():
        program = compiled(mpi, fs.root, "forms.c")
        for ranks in counts:
            done = run(fs, mpi, ranks, program, "/spate", *more, timeout=300)
            check(done.returncode == 0, "%s, %d ranks: exit %d\n%s%s" % (mpi, ranks, done.returncode, done.stdout, done.stderr))
            check(done.stderr.count("romio_no_indep_rw=true is not taken") == 4, "the hint that is refused: " + done.stderr)
            check(done.stderr.count("cb_config_list=host1,host2 is not taken") == 1, "the list of hosts: " + done.stderr)
        profiler = os.path.join(fs.root, "profiler.%s.so" % mpi)
        subprocess.run(["mpicc." + mpi, "-shared", "-fPIC", "-o", profiler, os.path.join(HERE, "profiler.c")], check=True)
        # Before Spate's library: it makes its calls again, and Spate's library gets them.
        done = run(fs, mpi, 2, program, "/spate", env={"LD_PRELOAD": profiler})
        check(done.returncode == 0, "%s, profiled: exit %d\n%s%s" % (mpi, done.returncode, done.stdout, done.stderr))
        seen = re.findall(r"profiler: (\d+) opens, (\d+) collective writes", done.stderr)
        check(len(seen) == 2 and all(int(opens) >= 5 and int(writes) == 8 for opens, writes in seen), "what the profiling library saw: " + done.stderr)
    left = fs.spate("ls", "-a", "spate:/").decode().split()
    check(not [name for name in left if name not in (".", "..")], "files left behind: %s" % left)
    fs.fsck()
