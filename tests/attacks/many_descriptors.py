#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program under the preload library has more descriptors than the library has marks for. It gets an error, and the
library's own state stays intact."""
import os
import subprocess
import sys

from lib import BIN, Cluster, check

MOST = 2048  # limit of the library built for this test; others have 65,536, which many processes may not open
LIBRARY = os.path.join(BIN, "../lib/few/libspate-preload.so")

FILL = """
import errno, os, resource
MOST = %d
resource.setrlimit(resource.RLIMIT_NOFILE, (MOST + 1000, MOST + 1000))
null = os.open("/dev/null", os.O_RDONLY)
used = []
while not used or used[-1] < MOST + 20: used.append(os.dup(null))

def refused(call, *numbers):
    try: call()
    except OSError as e: assert e.errno in numbers, e
    else: raise AssertionError("it worked")
""" % MOST
# The client starts when there are no marks left for its sockets: its descriptors have numbers that cannot be marked.
BEFORE = FILL + """
for _ in range(8): refused(lambda: os.stat("/spate/a"), errno.EIO, errno.EMFILE)
for fd in used: os.close(fd)
assert os.stat("/spate/a").st_size == 5 and open("/spate/a").read() == "hello"
"""
AFTER = "import os\nassert os.stat('/spate/a').st_size == 5\n" + FILL + """
for _ in range(8): refused(lambda: os.open("/spate/a", os.O_RDONLY), errno.EMFILE)
assert os.stat("/spate/a").st_size == 5
for fd in used: os.close(fd)
assert open("/spate/a").read() == "hello"
"""


def run(fs, script):
    done = subprocess.run([sys.executable, "-c", script], timeout=60, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=dict(fs.env, SPATE_FS=fs.dir, LD_PRELOAD=LIBRARY))
    check(done.returncode == 0, "exit %d:\n%s%s" % (done.returncode, done.stdout, done.stderr))


with Cluster(io=1) as fs:
    fs.up()
    fs.spate("put", "spate:/a", input=b"hello")
    for name, script in (("before", BEFORE), ("after", AFTER)):
        run(fs, script)
        print(name, flush=True)
    check(fs.spate("cat", "spate:/a") == b"hello", "the file is not as it was")
