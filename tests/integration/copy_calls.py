#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many system calls `spate cp -r` and the io servers need for each small file."""
import os
import shutil
import signal
import subprocess

from cluster import SPATE, Cluster, check, skip

FILES = 400
STRACE = shutil.which("strace")


def counts(path):
    """Returns the system calls that strace has counted: {name: times}."""
    with open(path) as f:
        lines = [line.split() for line in f]
    return {words[-1]: int(words[3]) for words in lines if len(words) > 4 and words[0][0].isdigit() and words[-1] != "total"}


def traced(fs, *args):
    """Runs `spate ARGS` and returns its system calls."""
    out = fs.root + "/calls"
    subprocess.run([STRACE, "-f", "-c", "-o", out, SPATE, *args], env=fs.env, check=True, timeout=300)
    return counts(out)


def traced_server(fs, server, work):
    """Runs `work` and returns the system calls of the server meanwhile."""
    out = fs.root + "/calls-server"
    tracer = subprocess.Popen([STRACE, "-f", "-c", "-o", out, "-p", str(fs.pids()[server])], stderr=subprocess.PIPE)
    check("attached" in tracer.stderr.readline().decode(), "strace has not attached")
    work()
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=60)
    return counts(out)


def at_most(calls, most, what):
    """Checks that no call is made more often than `most` says for each file; a few calls belong to the command itself."""
    for name, each in most.items():
        check(calls.get(name, 0) <= each * FILES + 150, "%s: %d %s for %d files: %s" % (what, calls.get(name, 0), name, FILES, calls))


def each_file_costs_few_calls(fs):
    tree = fs.root + "/tree"
    os.makedirs(tree)
    for i in range(FILES):
        with open("%s/f%03d" % (tree, i), "wb") as f:
            f.write(b"%03d" % i * 700)
    # Into the file system: an lstat, an open, an fstat, one read, a close.
    at_most(traced(fs, "cp", "-r", tree, "spate:/a"), {"read": 1, "newfstatat": 2, "geteuid": 0, "close": 1, "lseek": 0}, "cp -r in")
    # Out of it: the file has its size by the write, and its owner was seen at the open.
    at_most(traced(fs, "cp", "-r", "spate:/a", fs.root + "/out"),
            {"newfstatat": 1, "ftruncate": 0, "geteuid": 0, "fchmod": 1, "utimensat": 1, "fchown": 0, "close": 1}, "cp -r out")
    subprocess.run(["diff", "-r", tree, fs.root + "/out"], check=True)
    # The io server does not look for each new datafile before it makes it.
    calls = traced_server(fs, 2, lambda: fs.spate("cp", "-r", tree, "spate:/b"))
    at_most(calls, {"openat": 1}, "the io server")


if not STRACE or subprocess.run([STRACE, "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode != 0:
    skip("there is no strace that may trace")
with Cluster(io=1) as fs:
    fs.up()
    each_file_costs_few_calls(fs)
