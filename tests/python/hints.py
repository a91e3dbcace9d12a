#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The type hints hold (mypy), those of the extension module name what it has (stubtest), and everything has a docstring.
  hints.py PYTHON PACKAGES"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from cluster import check, skip  # noqa: E402

python, packages = sys.argv[1:]
# pybind11 gives its classes a metaclass of its own, and constructors that raise.
BY_PYBIND11 = "spate._spate.File\nspate._spate.FileSystem\nspate._spate.Operation\nspate._spate.*.__init__\n"
DOCSTRINGS = """
import inspect, spate, spate.aio
for kind in (spate.File, spate.FileSystem, spate.Operation, spate.aio.AsyncFileSystem, spate.Layout, spate.Strided, spate.box, spate.connect):
    assert kind.__doc__, kind
for kind in (spate.File, spate.FileSystem.__mro__[1], spate.Operation):
    for name, member in vars(kind).items():
        assert name.startswith("_") or len(member.__doc__.splitlines()[-1].split()) > 1, name
"""


def run(*arguments, folder):
    # Run in the folder itself: there mypy treats the package as our own, not as an installed one.
    environment = dict(os.environ, MYPYPATH=packages, PYTHONPATH=packages, HOME=folder)
    done = subprocess.run(arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=250)
    check(done.returncode == 0, "%s: exit %d\n%s" % (" ".join(arguments), done.returncode, done.stdout))


with tempfile.TemporaryDirectory() as folder:
    run(python, "-B", "-c", DOCSTRINGS, folder=folder)
    if subprocess.run([python, "-c", "import mypy.stubtest"], stderr=subprocess.DEVNULL).returncode != 0:
        skip("docstrings are there; the rest needs mypy (scripts/test-long python)")
    with open(folder + "/allowed", "w", encoding="utf-8") as file:
        file.write(BY_PYBIND11)
    run(python, "-m", "mypy", "--strict", "--cache-dir", folder + "/cache", "-p", "spate", folder=folder)
    run(python, "-m", "mypy.stubtest", "spate._spate", "--allowlist", "allowed", folder=folder)
