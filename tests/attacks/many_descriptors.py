#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program below the preload library that has more descriptors than the library has marks for: it gets an error, and the library's own
state stays whole."""
import resource
import subprocess

from lib import Cluster, check, run_below_spate, skip

MOST = 1 << 16

FILL = """
import errno, os, resource
MOST = 1 << 16
resource.setrlimit(resource.RLIMIT_NOFILE, (MOST + 1000, MOST + 1000))
null = os.open("/dev/null", os.O_RDONLY)
used = []
while not used or used[-1] < MOST + 20: used.append(os.dup(null))

def refused(call, *numbers):
    try: call()
    except OSError as e: assert e.errno in numbers, e
    else: raise AssertionError("it worked")
"""
# The client begins when there is no room for its sockets: what it opens has numbers that cannot be marked.
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


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < MOST + 1000:
        raised = subprocess.run(["prlimit", "--nofile=%d" % (MOST + 1000), "true"], capture_output=True)
        if raised.returncode != 0:
            skip("needs a limit of %d open files" % (MOST + 1000))
    with Cluster(io=1) as fs:
        fs.up()
        fs.spate("put", "spate:/a", input=b"hello")
        for name, script in (("before", BEFORE), ("after", AFTER)):
            run_below_spate(fs, script)
            print(name, flush=True)
        check(fs.spate("cat", "spate:/a") == b"hello", "the file is not as it was")


main()
