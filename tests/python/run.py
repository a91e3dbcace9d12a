#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a file of this folder by the interpreter that the package was built for, on a file system of three io servers of its
own. Warnings are errors there. fsck finds nothing afterwards.
  run.py PYTHON PACKAGES FILE"""
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from cluster import Cluster, check, skip  # noqa: E402

python, packages, name = sys.argv[1:]
with Cluster(io=3) as fs:
    fs.up()
    environment = dict(fs.env, PYTHONPATH=packages, SPATE_TEST_FOLDER=fs.root, SPATE_TEST_SERVERS=" ".join(map(str, fs.pids().values())))
    flags = ["-B"] if name == "programs_test.py" else ["-B", "-W", "error", "-X", "faulthandler"]  # warnings of other packages
    done = subprocess.run([python, *flags, os.path.join(HERE, name)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=800)
    for pid in fs.pids().values():  # a test that stopped servers may have died
        os.kill(pid, signal.SIGCONT)
    print(done.stdout)
    if done.returncode != 77:
        check(done.returncode == 0, "%s: exit %d" % (name, done.returncode))
        fs.fsck()
if done.returncode == 77:
    skip(done.stdout.strip().splitlines()[-1])
