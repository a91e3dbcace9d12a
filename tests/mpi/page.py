#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs and commands of docs/mpi-programs.md as they stand there, in a folder of their own. A block "run=PACKAGE" is left out where
pkg-config knows no such package."""
import re
import subprocess

from mpi import *
from cluster import Cluster

BLOCK = re.compile(r"^```(?:c file|sh run)=(\S+)\n(.*?)^```$", re.M | re.S)
BYTES = 1000 * 2000 * 8

with open(os.environ["SPATE_SOURCE"] + "/docs/mpi-programs.md") as f:
    blocks = BLOCK.findall(f.read())
check(len(blocks) == 7, "blocks of the page: %s" % [name for name, _ in blocks])

ran = []
with Cluster(io=3) as fs:
    fs.up()
    folder = os.path.join(fs.root, "page")
    os.mkdir(folder)
    # The environment of a user's shell.
    env = environment(fs, PATH=BIN + ":" + os.environ["PATH"])
    for name, text in blocks:
        if name.endswith(".c"):
            with open(os.path.join(folder, name), "w") as out:
                out.write(text)
            continue
        if subprocess.run(["pkg-config", "--exists", name]).returncode != 0 or not set(libraries()) & set(re.findall(r"mpiexec\.(\w+)", text)):
            print("left out: %s is not installed" % name)
            continue
        done = subprocess.run(["sh", "-exc", text], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                              start_new_session=True)
        check(done.returncode == 0, "%s: exit %d\n%s" % (name, done.returncode, done.stdout))
        sizes = [int(word) for word in done.stdout.split() if word.isdigit()]
        check(any(BYTES <= size < BYTES + (2 << 20) for size in sizes), "%s: the file has another size: %s" % (name, done.stdout))
        ran.append(name)
    fs.fsck()
ran or skip("no parallel HDF5, NetCDF or PnetCDF")
print("ran: " + ", ".join(ran))
