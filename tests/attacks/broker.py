#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spate-broker holds the locks of a user's programs. A stranger must not reach it, and a program that floods it must
not keep another program from its locks."""
import errno
import glob
import os
import signal
import socket
import subprocess
import sys

from lib import SPATE, Cluster, as_stranger, check, need_root, run_below_spate, wait_until

HOLD = """
import fcntl, sys
f = open("/spate/a", "r+")
fcntl.flock(f, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
"""
TAKE = """
import fcntl
f = open("/spate/b", "r+")
fcntl.flock(f, fcntl.LOCK_EX)
f = open("/spate/a", "r+")
try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError: pass
else: raise AssertionError("two have the lock")
"""


def find_broker(config):
    """Returns the socket and the environment of the broker that serves this file system. The broker's command line
    names both."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path) as f:
                words = f.read().split("\0")
        except OSError:
            continue
        if len(words) >= 3 and words[0].endswith("/spate-broker") and words[1].startswith(config):
            found = [place for place in ("/run/spate-0/", "/tmp/spate-0/") if os.path.exists(place + words[2])]
            check(len(found) == 1, "the socket %s is in %s" % (words[2], found))
            with open(path.replace("cmdline", "environ")) as f:
                return found[0] + words[2], f.read().split("\0")
    raise AssertionError("no broker")


def connect(address):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect(address)  # blocks while the queue is full
    return one


def main():
    need_root()
    with Cluster(io=1) as fs:
        fs.up()
        fs.spate("put", "spate:/a", input=b"a")
        fs.spate("put", "spate:/b", input=b"b")
        program = subprocess.Popen([SPATE, "run", "--", sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=dict(fs.env, SPATE_FS=fs.dir))
        try:
            check(program.stdout.readline() == "locked\n", "no lock")
            address, environment = find_broker(fs.dir)
            check(not [one for one in environment if one.startswith("LD_PRELOAD=")], "the broker has LD_PRELOAD")
            check(as_stranger(lambda: connect(address)) == errno.EACCES, "a stranger comes to the broker")
            # Opens more connections than the broker takes from one process. All of them are silent.
            flood = []
            signal.alarm(60)
            for _ in range(5000):
                flood.append(connect(address))
            signal.alarm(0)
            closed = 0
            for one in flood[-100:]:
                one.settimeout(10)
                closed += one.recv(1) == b""
            check(closed == 100, "the broker keeps connections without bound: %d of the last 100 are closed" % closed)
            run_below_spate(fs, TAKE, timeout=30)
            for one in flood:
                one.close()
        finally:
            program.communicate("go\n", timeout=60)
        wait_until(lambda: not os.path.exists(address), "the broker removes its socket when it ends", 30)


main()
