#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`bench/run bmi` says why an MPI has no figures: it is not installed, its compiler fails, its program fails."""
import contextlib
import io
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "bench", "bmi"))
import references  # noqa: E402 (after the path)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def tool(folder, name, script):
    path = os.path.join(folder, name)
    with open(path, "w") as out:
        out.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)


def found(path):
    """Returns (the usable libraries, the printed messages) if only these programs exist."""
    said = io.StringIO()
    before, os.environ["PATH"] = os.environ["PATH"], path
    try:
        with contextlib.redirect_stderr(said), tempfile.TemporaryDirectory() as folder:
            return references.References(folder, "program.c"), said.getvalue()
    finally:
        os.environ["PATH"] = before


with tempfile.TemporaryDirectory() as folder:
    there, said = found(folder)
    check(not there.programs and len(said.splitlines()) == 2, "nothing is installed: " + said)
    check("MPICH" in said and "apt-get install libmpich-dev mpich" in said and "Open MPI" in said, "nothing is installed: " + said)
    _, said = found(folder)
    check(said == "", "said again: " + said)

    # The plain name mpicc may stand for any MPI.
    tool(folder, "mpicc", "exit 0\n")
    tool(folder, "mpicc.mpich", "echo cannot find mpi.h >&2; exit 1\n")
    tool(folder, "mpicc.openmpi", "exit 0\n")
    for program in ("mpiexec.mpich", "mpiexec.openmpi"):
        tool(folder, program, "exit 0\n")
    there, said = found(folder)
    check("MPICH" in said and "cannot find mpi.h" in said, "a compiler that fails: " + said)
    check(list(there.programs) == ["Open MPI"], "compiled for %s" % list(there.programs))
    check(there.command("MPICH", "tcp", 2) is None, "a command without a program")
    command, environment = there.command("Open MPI", "tcp", 2)
    check(command[0] == "mpiexec.openmpi" and "tcp,self" in command and environment["OMPI_ALLOW_RUN_AS_ROOT"] == "1", "%s %s" % (command, environment))

check(references.last_line("----\nno such option: x\n----\n[host:12] 1 more process has said so\n") == "no such option: x", "the last words")
check(references.last_line("") == "it says nothing", "no words")
