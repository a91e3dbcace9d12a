# SPDX-License-Identifier: Apache-2.0
"""Code that the tests of this folder share: an export by `spate export`, which is ended by its own pid."""
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import BIN, SPATE, Cluster, SANITIZED, check, skip, wait_until  # noqa: E402,F401
import conformance  # noqa: E402
import nbd_wire as wire  # noqa: E402,F401


class Export:
    """Runs `spate export ARGS`. It has .url, .urls, and .address for wire.Connection (of the first URL)."""

    def __init__(self, *args, env=None, **more):
        self.process = subprocess.Popen([SPATE, "export", *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.urls = [self.process.stdout.readline().decode().strip()]
        check(self.urls[0].startswith("nbd"), "no URL but %r; %s" % (self.urls[0], "" if self.urls[0] else self.process.stderr.read().decode()))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            out, err = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
        if error is not None:
            print("export said: " + err.decode(errors="replace"), file=sys.stderr)
        else:
            check(self.process.returncode == 0, "export ended with %d: %s" % (self.process.returncode, err.decode(errors="replace")))
        return False

    @property
    def url(self):
        return self.urls[0]

    @property
    def address(self):
        if "socket=" in self.url:
            return self.url.split("socket=")[1]
        host, _, port = self.url.split("://")[1].split("/")[0].rpartition(":")
        return host, int(port)

    def memory_kib(self):
        with open("/proc/%d/status" % self.process.pid) as status:
            return int([line for line in status if line.startswith("VmRSS")][0].split()[1])

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def alive(self, export=""):
        check(self.process.poll() is None, "the server has ended")
        with wire.Connection(self.address) as c:
            c.go(export).read(0, 1)


def timed(name):
    """Prints how long each part of a test took."""
    class Timer:
        def __enter__(self):
            self.start = time.monotonic()

        def __exit__(self, *error):
            print("%-24s %.1f s" % (name, time.monotonic() - self.start), flush=True)
    return Timer()
