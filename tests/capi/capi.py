#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""calls.c on a file system of three io servers, without and with leases; fsck finds nothing afterwards."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import Cluster, check

for cache in ("on", "all"):  # all: the client keeps attributes under leases
    with Cluster(io=3) as fs:
        fs.up()
        environment = dict(fs.env, SPATE_CLIENT_ATTRIBUTE_CACHE=cache)
        done = subprocess.run([os.environ["SPATE_BIN"] + "/capi_calls"], env=environment, capture_output=True, timeout=120)
        check(done.returncode == 0, "calls.c, attribute_cache %s: exit %d\n%s" % (cache, done.returncode, done.stderr.decode()))
        fs.fsck()
        fs.spate("down", "-q")
