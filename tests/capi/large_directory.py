#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""large_directory.c on real servers: large_directory.py COUNT"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import Cluster, check

with Cluster(io=1) as fs:
    fs.up()
    done = subprocess.run([os.environ["SPATE_BIN"] + "/capi_large_directory", sys.argv[1]], env=fs.env, capture_output=True, timeout=2900)
    check(done.returncode == 0, "exit %d\n%s" % (done.returncode, done.stderr.decode()))
    print(done.stdout.decode(), end="")
    fs.spate("down", "-q")
