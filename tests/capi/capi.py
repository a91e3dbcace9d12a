#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.c on a file system of three io servers; fsck finds nothing afterwards."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import Cluster, check

with Cluster(io=3) as fs:
    fs.up()
    done = subprocess.run([os.environ["SPATE_BIN"] + "/capi_calls"], env=fs.env, capture_output=True, timeout=120)
    check(done.returncode == 0, "calls.c: exit %d\n%s" % (done.returncode, done.stderr.decode()))
    fs.fsck()
    fs.spate("down", "-q")
