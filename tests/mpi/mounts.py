#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mpiio.c on paths of a mount: Spate serves them without a prefix, also by a symbolic link and from a working directory there. Paths with the
prefix ufs: are left to MPI's own functions, which use the mount."""
from mpi import *
from cluster import Cluster

os.path.exists("/dev/fuse") and os.access("/dev/fuse", os.R_OK | os.W_OK) and os.path.exists(BIN + "/spate-mount") or skip("no mounts here")
os.getuid() == 0 or shutil.which("fusermount3") or skip("needs root or fusermount3")

with Cluster(io=3) as fs:
    fs.up()
    mount = os.path.join(fs.root, "mnt")
    fs.spate("mount", "-p", mount)
    try:
        os.symlink(mount, os.path.join(fs.root, "link"))
        for mpi in libraries():
            program = compiled(mpi, fs.root, "mpiio.c")
            for prefix in (mount, os.path.join(fs.root, "link")):
                done = run(fs, mpi, 2, program, prefix)
                check(done.returncode == 0, "%s, %s: exit %d\n%s%s" % (mpi, prefix, done.returncode, done.stdout, done.stderr))
                # A local function would not know the hint.
                check("varstrip:64 KiB,4 KiB,8 KiB" in fs.spate("getstripe", "spate:/hints").decode(), "the file is not made by Spate's functions")
                os.unlink(mount + "/hints")
            done = run(fs, mpi, 2, "sh", "-c", "cd '%s' && '%s' ." % (mount, program))
            check(done.returncode == 0, "%s, from there: exit %d\n%s%s" % (mpi, done.returncode, done.stdout, done.stderr))
            os.unlink(mount + "/hints")
            done = run(fs, mpi, 2, compiled(mpi, fs.root, "opens.c"), "ufs:%s/own" % mount, "alone")
            check(done.returncode == 0, "%s, ufs:: exit %d\n%s%s" % (mpi, done.returncode, done.stdout, done.stderr))
            check(fs.spate("cat", "spate:/own") == b"\0\0\0\0\1\0\0\0", "what MPI's own functions wrote")
            os.unlink(mount + "/own")
    finally:
        fs.spate("umount", mount)
    fs.fsck()
