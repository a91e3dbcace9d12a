#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""forms.c under every MPI library, on as many ranks as the arguments say (default: 2), alone and below a profiling library. "long" as
the last argument: by spate: names and on a mount as well as below the prefix."""
import re
import subprocess

from mpi import *
from cluster import Cluster

more = [word for word in sys.argv[1:] if word == "long"]
counts = [int(word) for word in sys.argv[1:] if word != "long"] or [2]

def mounted(fs):
    """Returns the mount as a prefix, or nothing if there can be none here."""
    mount = os.path.join(fs.root, "mnt")
    possible = os.access("/dev/fuse", os.R_OK | os.W_OK) and os.path.exists(BIN + "/spate-mount") and (os.getuid() == 0 or shutil.which("fusermount3"))
    if possible:
        fs.spate("mount", "-p", mount)
    return [mount] if possible else []


with Cluster(io=3) as fs:
    fs.up()
    mount = mounted(fs) if more else []
    try:
        for mpi in libraries():
            program = compiled(mpi, fs.root, "forms.c")
            for ranks, prefix in ((ranks, prefix) for ranks in counts for prefix in ["/spate"] + (["spate:"] + mount if more else [])):
                done = run(fs, mpi, ranks, program, prefix, timeout=300)
                check(done.returncode == 0, "%s, %d ranks, %s: exit %d\n%s%s" % (mpi, ranks, prefix, done.returncode, done.stdout, done.stderr))
                check(done.stderr.count("romio_no_indep_rw=true is ignored") == 4, "the hint that is refused: " + done.stderr)
                check(done.stderr.count("cb_config_list=host1,host2 is ignored") == 1, "the list of hosts: " + done.stderr)
            profiler = os.path.join(fs.root, "profiler.%s.so" % mpi)
            subprocess.run(["mpicc." + mpi, "-shared", "-fPIC", "-o", profiler, os.path.join(HERE, "profiler.c")], check=True)
            # The profiling library stands before Spate's library: it repeats each call, and Spate's library gets the
            # repeated one.
            done = run(fs, mpi, 2, program, "/spate", env={"LD_PRELOAD": profiler})
            check(done.returncode == 0, "%s, profiled: exit %d\n%s%s" % (mpi, done.returncode, done.stdout, done.stderr))
            seen = re.findall(r"profiler: (\d+) opens, (\d+) collective writes", done.stderr)
            check(len(seen) == 2 and all(int(opens) >= 5 and int(writes) == 8 for opens, writes in seen), "what the profiling library saw: " + done.stderr)
    finally:
        if mount:  # a mount whose servers have ended would hold up whoever removes the folder
            fs.spate("umount", mount[0])
    left = fs.spate("ls", "-a", "spate:/").decode().split()
    check(not [name for name in left if name not in (".", "..")], "files left behind: %s" % left)
    fs.fsck()
