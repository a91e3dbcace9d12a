#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hints.c on 2 ranks under every MPI library: rank 0 reports each wrong hint once."""
from mpi import *
from cluster import Cluster

with Cluster(io=3) as fs:
    fs.up()
    file = os.path.join(fs.root, "hints.txt")
    with open(file, "w") as out:
        out.write("# of the site\nstriping_factor 2\n\nstriping_unit 8192\ncb_buffer_size lots\nfile_perm 0999\nalone\n")
    for mpi in libraries():
        program = compiled(mpi, fs.root, "hints.c")
        done = run(fs, mpi, 2, program, "spate:", env={"ROMIO_HINTS": file})
        check(done.returncode == 0, "%s: exit %d\n%s%s" % (mpi, done.returncode, done.stdout, done.stderr))
        # The program has opened two files and tried to open two more.
        for text, times in (("hint romio_cb_read=perhaps is ignored", 1), ("ROMIO_HINTS: hint cb_buffer_size=lots is ignored", 4),
                            ("not a key and a value: alone", 4),
                            ("file_perm=0999 is ignored: it must be an octal number from 0 to 777\n", 4),
                            ("hint striping_factor=100: the file has 3", 1)):
            check(done.stderr.count(text) == times, "%s, %d times %s: %s" % (mpi, times, text, done.stderr))
        done = run(fs, mpi, 2, compiled(mpi, fs.root, "opens.c"), "spate:/opens", "alone", env={"ROMIO_HINTS": fs.root + "/none"})
        check(done.returncode == 0 and done.stderr.count("/none cannot be read") == 1, "%s: %s" % (mpi, done.stderr))
        fs.spate("rm", "spate:/opens")
    fs.fsck()
