# SPDX-License-Identifier: Apache-2.0
"""The package spate-mpi on a Debian with nothing else: an MPI program is compiled there and runs on Spate's files under each MPI that Debian ships."""
import os
import shutil

from bare_chroot import inside, install
from cluster import check

SOURCE = os.environ["SPATE_SOURCE"]
NEEDED = ("gcc", "libc6-dev", "mpich", "libmpich-dev", "openmpi-bin", "libopenmpi-dev")
# Preloaded, and linked with the library in front of the MPI library.
USE = """
export HOME=/home/ranks PATH=/usr/bin:/bin OMPI_MCA_btl=self,vader
cd $HOME
spate up
for mpi in mpich openmpi; do
  over= && [ $mpi = mpich ] || over=--oversubscribe
  mpicc.$mpi opens.c -o program
  spate run --mpi -- mpiexec.$mpi $over -n 4 ./program /spate/preloaded.$mpi together
  mpicc.$mpi opens.c -o linked -Wl,--no-as-needed -lspate-mpi
  mpiexec.$mpi $over -n 4 ./linked spate:/linked.$mpi together
done
spate ls -l spate:/
spate down
"""


def both_mpis(root):
    """Expects the packages of Spate to be installed below `root`."""
    install(root, *NEEDED)
    home = root + "/home/ranks"
    os.mkdir(home)
    shutil.copy(SOURCE + "/tests/mpi/opens.c", home)
    os.chown(home, 1001, 1001)
    said = inside(root, USE, user=1001)
    for mpi in ("mpich", "openmpi"):
        for way in ("preloaded", "linked"):
            check("16 " in next((line for line in said.splitlines() if line.endswith(" %s.%s" % (way, mpi))), ""), "%s, %s: %s" % (mpi, way, said))
    check("spate-mpi:" not in said, "what the ranks say: " + said)
    local = [name for name in os.listdir(home) if name.endswith((".mpich", ".openmpi")) or name.startswith("spate:")]
    check(not local, "local files were made: %s" % local)
