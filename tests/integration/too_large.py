#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A size that the servers' local file systems cannot hold is refused at once, and the file stays unchanged, before and
after a restart of the meta server."""
import resource
import signal
import subprocess

from cluster import SPATE, Cluster, check

LARGEST = 1 << 40  # size limit of a local file: a limit of the servers' processes
TOO_LARGE = "900T"


def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, resource.RLIM_INFINITY))


def truncate(fs, size):
    return subprocess.run([SPATE, "run", "--", "truncate", "-s", size, "/spate/f"], env=fs.env, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


with Cluster(io=2, env={"SPATE_CLIENT_DEADLINE": "20s"}) as fs:
    subprocess.run([SPATE, "up", "-q", "--dir", fs.dir, "--io", str(fs.io), "--port", str(fs.port)], env=fs.env, check=True,
                   preexec_fn=limit)
    fs.seen.update(fs.pids().values())
    fs.spate("put", "spate:/f", input=b"hello")
    for _ in range(2):
        done = truncate(fs, TOO_LARGE)
        check(done.returncode != 0 and "File too large" in done.stderr, "exit %d, said: %s" % (done.returncode, done.stderr))
        check(fs.spate("cat", "spate:/f") == b"hello", "the file has changed")
        fs.kill(1, sig=signal.SIGKILL)
        fs.up()
    check(truncate(fs, "1G").returncode == 0, "a size that fits was refused")
    check(truncate(fs, "5").returncode == 0, "the file cannot be cut back")
    check(fs.spate("cat", "spate:/f") == b"hello", "the file has changed")
    fs.fsck()
