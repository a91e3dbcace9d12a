# SPDX-License-Identifier: Apache-2.0
"""The MPI libraries of this machine, for the tests of this folder."""
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import BIN, SPATE, check, skip
from ranks import Ranks

HERE = os.path.dirname(os.path.abspath(__file__))


def libraries():
    """Returns the installed MPI libraries for which Spate was built. Skips the test if there is none."""
    found = [name for name in ("mpich", "openmpi")
             if shutil.which("mpicc." + name) and shutil.which("mpiexec." + name) and os.path.exists("%s/../lib/libspate-mpi-%s.so" % (BIN, name))]
    return found or skip("no MPI library (libmpich-dev and mpich, or libopenmpi-dev and openmpi-bin)")


def compiled(mpi, folder, source, *flags):
    """Compiles a C program of this folder with an MPI's own compiler. Returns its path."""
    program = os.path.join(folder, os.path.splitext(source)[0] + "." + mpi)
    subprocess.run(["mpicc." + mpi, "-o", program, os.path.join(HERE, source), *flags], check=True)
    return program


def command(mpi, ranks, *words):
    """Returns the command that starts a program on this many ranks, even on a machine with few processors."""
    options = ["--oversubscribe", "--mca", "btl", "self,vader"] if mpi == "openmpi" else []
    return ["mpiexec." + mpi, *options, "-n", str(ranks), *words]


def patient(fs):
    """Returns a library with which ranks sleep while they wait (patient.c): there are more ranks and servers than processors."""
    library = os.path.join(fs.root, "patient.so")
    if not os.path.exists(library):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "patient.c"), "-ldl"], check=True)
    return library


def environment(fs, **more):
    # Open MPI refuses to run as root without the first two.
    env = dict(fs.env, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1", **more)
    env["LD_PRELOAD"] = ":".join(filter(None, [env.get("LD_PRELOAD"), patient(fs)]))
    return env


def started(fs, mpi, ranks, *words, env=None, prefix=(SPATE, "run", "--mpi", "--")):
    """Starts a program under `spate run --mpi`. Returns its Ranks."""
    return Ranks([*prefix, *command(mpi, ranks, *words)], environment(fs, **(env or {})))


def run(fs, mpi, ranks, *words, timeout=240, **more):
    """As started(), and waits for the end. Returns its exit code and output. Fails only if the program hangs."""
    with started(fs, mpi, ranks, *words, **more) as running:
        return running.end(timeout)
