#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The log of slow requests: one that waits for a stopped server is written down with its trace, by each server that it has kept
waiting; what takes no time is not, nor are requests for events, which wait by intent, nor any with the threshold 0.
  slow_requests.py LIBSPATE.SO"""
import ctypes
import os
import re
import signal
import subprocess
import sys

from cluster import SANITIZED, SPATE, Cluster, check, skip

SLOW = re.compile(r"warn rpc slow request op=(\w+) took_ms=(\d+) waited_ms=(\d+) status=(\w+) client=(\d+) description=\"(.*)\" uid=(\d+) trace=([0-9a-f]{16})")


def slow(fs, server):
    return SLOW.findall(fs.log(server))


def truncated_while_stopped(fs):
    """A program truncates a file while the io servers stand still, until the program reports that it waits. Returns its
    number and its log."""
    fs.spate("put", "spate:/file", input=b"x" * (1 << 20))
    fs.kill(2, 3, 4, sig=signal.SIGSTOP)
    said = []
    try:
        environment = dict(fs.env, SPATE_LOG_LEVEL="warn,rpc=debug")
        program = subprocess.Popen([SPATE, "put", "spate:/file"], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in program.stderr:
            said.append(line)
            if "has waited for" in line:
                break
    finally:
        fs.kill(2, 3, 4, sig=signal.SIGCONT)
    said.append(program.communicate(timeout=60)[1])
    check(program.returncode == 0 and len(said) > 1, "".join(said))
    return program.pid, "".join(said)


def holds_leases(fs):
    """Starts a session of this process that keeps attributes under leases and so asks for events all the time. The
    returned function ends it."""
    library, session = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
    os.environ["SPATE_CLIENT_ATTRIBUTE_CACHE"] = "all"
    check(library.spate_connect(ctypes.byref(session), fs.dir.encode(), None) == 0, "the library does not connect")
    check(library.spate_stat(session, b"/", ctypes.create_string_buffer(256)) == 0, "no answer")
    return lambda: library.spate_disconnect(session)


def written_down():
    with Cluster(io=3, env={"SPATE_LOG_SLOW_REQUEST": "500ms"}) as fs:
        fs.up()
        session = holds_leases(fs)
        found = []
        for _ in range(10):  # a program that starts slowly has waited for itself
            pid, said = truncated_while_stopped(fs)
            trace = re.search(r"op=create .*trace=([0-9a-f]+)", said)
            check(trace, "the program has logged no create: " + said)
            found = [line for line in slow(fs, 1) if line[7] == trace.group(1)]
            if found:
                break
        check(found, "the meta server has written down %s" % slow(fs, 1))
        op, took, waited, status, _client, description, uid, _trace = found[0]
        check((op, status, int(uid)) == ("create", "ok", os.getuid()), str(found))
        check(int(took) >= 500 and int(waited) < int(took), str(found))
        check(":%d:" % pid in description, str(found))
        count = re.search(r"^spate_rpc_slow_total\{.*\} (\d+)$", fs.spate("stats", "--prometheus", "1").decode(), re.MULTILINE)
        check(count and int(count.group(1)) >= 1, "slow requests are not counted")
        check(session() == 0, "the session does not end")
        by_intent = [line for line in slow(fs, 1) if line[0] == "session_events"]
        check(not by_intent, "written down although it waits by intent: %s" % by_intent)


def not_written_down():
    with Cluster(io=3, env={"SPATE_LOG_SLOW_REQUEST": "0s"}) as fs:
        fs.up()
        truncated_while_stopped(fs)
        check(not slow(fs, 1), "with the threshold 0: %s" % slow(fs, 1))


if SANITIZED:
    skip("Python cannot load a sanitized library")
written_down()
not_written_down()
