#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""While a server keeps a command waiting, the command says so with the server's name, and it ends on Ctrl-C."""
import contextlib
import os
import select
import signal
import subprocess
import time

from cluster import SPATE, Cluster, check


def hear_ctrl_c():
    """A shell that runs this test in the background makes its children ignore Ctrl-C. This undoes that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def said_in_time(command, process, seconds=30):
    """Returns what the command prints on standard error until it has named the server that it waits for."""
    said = b""
    end = time.monotonic() + seconds
    while b"has waited for" not in said:
        left = end - time.monotonic()
        check(left > 0 and select.select([process.stderr], [], [], left)[0], "%s says nothing: %r" % (command, said))
        part = os.read(process.stderr.fileno(), 4096)
        check(part != b"", "%s ended, said %r" % (command, said))
        said += part
    return said.decode()


def wait_and_give_up(fs, server, commands):
    """Runs all commands at once, since each waits for some seconds."""
    started = [(command, subprocess.Popen([SPATE, *command], env=fs.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE, start_new_session=True, preexec_fn=hear_ctrl_c)) for command in commands]
    for command, process in started:
        said = said_in_time(command, process)
        check("server %d (%s) for " % (server, fs.url(server)) in said, "%s: %s" % (command, said))
    for command, process in started:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        code = process.wait(20)
        check(code == -signal.SIGINT, "%s ended with %s" % (command, code))
        process.stderr.close()


@contextlib.contextmanager
def stopped(fs, server):
    fs.kill(server, sig=signal.SIGSTOP)
    try:
        yield
    finally:
        fs.kill(server, sig=signal.SIGCONT)


def main():
    with Cluster(io=2) as fs:
        fs.up()
        fs.spate("setstripe", "-c", "1", "spate:/data")
        slot = fs.spate("getstripe", "spate:/data").decode()
        fs.spate("put", "spate:/data", input=b"x" * 100_000)
        holder = next(s for s in (2, 3) if fs.datafiles(s))
        local = fs.root + "/local"
        with open(local, "wb") as f:
            f.write(b"y" * 100_000)

        with stopped(fs, 1):
            wait_and_give_up(fs, 1, [["ls", "spate:/"], ["mkdir", "spate:/new"], ["cp", local, "spate:/copy"], ["fsck"], ["sum", "spate:/data"],
                                     ["put", "spate:/b"], ["bench", "meta"], ["cat", "spate:/data"], ["run", "cat", "/spate/data"]])
            # A command that prints errors only does not print the notice.
            quiet = fs.fails("-q", "ls", "spate:/", "--set", "client.deadline=5 s")
            check("has waited" not in quiet and "server 1" in quiet, quiet)
        with stopped(fs, holder):
            wait_and_give_up(fs, holder, [["cp", "spate:/data", fs.root + "/out"], ["get", "spate:/data"], ["fsck"],
                                          ["run", "cat", "/spate/data"]])
        check(fs.spate("cat", "spate:/data") == b"x" * 100_000, "data: " + slot)


main()
