#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One io server stands still. Clients without a time limit then have more truncations under way than the meta server
works on at once. The meta server must serve everybody else meanwhile, and no session may end."""
import os
import signal
import subprocess
import time

from cluster import BIN, Cluster, check

LEASE = 6  # seconds; an idle client sends a heartbeat every 2 or 3 s, and on a busy machine one or two may be late
CLIENTS = 5
FILES = 230  # files of each client: together more than the 1024 requests that a server works on at once


def cutter(fs, number):
    return subprocess.Popen([os.path.join(BIN, "patient_cutter"), fs.dir + "/spate.toml", "/%d-" % number, str(FILES)],
                            env=dict(fs.env, SPATE_LOG_LEVEL="error"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


with Cluster(io=3, env={"SPATE_META_SESSION_LEASE": "%dms" % (LEASE * 1000), "SPATE_CLIENT_DEADLINE": "10s"}) as fs:
    fs.up()
    cutters = [cutter(fs, n) for n in range(CLIENTS)]
    for process in cutters:
        check(process.stdout.readline() == "ready\n", "the files were not made")
    fs.kill(2, sig=signal.SIGSTOP)
    for process in cutters:
        process.stdin.write("cut\n")
        process.stdin.flush()
    # Waits for several leases: sessions would end if the meta server got no heartbeats.
    end, made = time.monotonic() + 3 * LEASE, 0
    while time.monotonic() < end or made < 20:
        fs.spate("mkdir", "spate:/d%d" % made)
        made += 1
    check(all(process.poll() is None for process in cutters), "a truncation has ended without the server that stands still")
    check("session expired" not in fs.log(1), "a session has ended though its client lives")
    fs.kill(2, sig=signal.SIGCONT)
    for process in cutters:
        out, said = process.communicate(timeout=60)
        check(process.returncode == 0 and out == "cut\n", "a truncation failed: %s" % said)
    check(len(fs.spate("ls", "spate:/").split()) == made + CLIENTS * FILES, "names are missing")
    fs.fsck()
