# SPDX-License-Identifier: Apache-2.0
"""Debian's source packages, for the tests that build the upstream programs from them."""
import os
import shutil
import subprocess
import tarfile

from mpi import HERE, skip


def unpacked(package, tree, folder):
    """Returns the tree of the source package in the folder, whose name begins with `tree`. Skips the test if the
    package is not available."""
    done = subprocess.run([os.path.join(HERE, "..", "programs", "fetch-source"), package], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        skip("no source package of %s: %s" % (package, done.stderr.strip()))
    with tarfile.open(done.stdout.split()[-1]) as archive:
        archive.extractall(folder)
    return os.path.join(folder, next(name for name in os.listdir(folder) if name.startswith(tree) and os.path.isdir(os.path.join(folder, name))))


def built(folder, *commands):
    """Runs the commands of a build in a new folder. Shows their output if one fails."""
    os.makedirs(folder)
    for words in commands:
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise AssertionError("%s: exit %d\n%s" % (" ".join(words), done.returncode, done.stdout[-4000:]))
    return folder


def need(*tools):
    for tool in tools:
        shutil.which(tool) or skip("no %s here (scripts/install-deps --suite mpi)" % tool)
