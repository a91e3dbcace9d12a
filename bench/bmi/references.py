# SPDX-License-Identifier: Apache-2.0
"""The MPI libraries that `bench/run bmi` compares with. Each is found by the names of its own programs, since `mpicc`
and `mpirun` stand for different libraries on different machines. A library that cannot run is reported once."""
import os
import shutil
import subprocess
import sys

# The package, and how to make a library use TCP over loopback or shared memory: (options of mpiexec, environment).
KNOWN = {
    "MPICH": ("mpich", "apt-get install libmpich-dev mpich",
              {"tcp": ([], {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "MPIR_CVAR_NOLOCAL": "1"}), "shm": ([], {})}),
    "Open MPI": ("openmpi", "apt-get install libopenmpi-dev openmpi-bin",
                 {"tcp": (["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"], {}),
                  "shm": (["--mca", "pml", "ob1", "--mca", "btl", "vader,self"], {})}),
}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

_said = set()


def say(what):
    """Prints a message, but each message only once."""
    if what not in _said:
        _said.add(what)
        print(what, file=sys.stderr)


class References:
    """Compiles `source` with each installed library."""

    def __init__(self, folder, source):
        self.programs = {}
        for name, (suffix, install, _) in KNOWN.items():
            missing = [program for program in ("mpicc." + suffix, "mpiexec." + suffix) if not shutil.which(program)]
            if missing:
                say("%s: its columns stay empty, there is no %s (%s)" % (name, missing[0], install))
                continue
            program = os.path.join(folder, "mpi_program." + suffix)
            done = subprocess.run(["mpicc." + suffix, "-O2", "-w", "-o", program, source], stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                say("%s: its columns stay empty, its compiler fails: %s" % (name, last_line(done.stderr)))
            else:
                self.programs[name] = program

    def command(self, name, network, ranks):
        """Returns (words before the program's arguments, environment), or None if the library is not available."""
        if name not in self.programs:
            return None
        suffix, _, networks = KNOWN[name]
        options, environment = networks[network]
        cores = ",".join(str(rank % os.cpu_count()) for rank in range(ranks))
        # Open MPI uses each processor only once.
        bound = ["-bind-to", "user:" + cores] if suffix == "mpich" else \
            ["--bind-to", "cpu-list:ordered", "--cpu-list", cores] if ranks <= os.cpu_count() else ["--oversubscribe", "--bind-to", "none"]
        return ["mpiexec." + suffix, *options, "-n", str(ranks), *bound, self.programs[name]], {**environment, **AS_ROOT}


def last_line(text):
    # Open MPI puts lines of "-" around its messages and ends with "[host:pid] ...".
    lines = [line.strip() for line in text.splitlines() if line.strip(" -") and not line.startswith("[")]
    return lines[-1] if lines else "it says nothing"
