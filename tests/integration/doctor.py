#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spate doctor on this machine: whose port is whose, a store that is gone, limits; JSON and exit codes."""
import json
import os
import resource
import socket
import subprocess

from cluster import SPATE, Cluster, check


def doctor(fs, *more, **how):
    done = subprocess.run([SPATE, "--fs", fs.dir, "doctor", "--json", *more], capture_output=True, text=True, timeout=120, env=fs.env, **how)
    return done.returncode, {row["check"]: row for row in json.loads(done.stdout)}


def is_found(found, name, verdict, *words):
    row = found[name]
    check(row["verdict"] == verdict, "%s: %s" % (name, row))
    check(bool(row["advice"]) == (verdict != "ok"), "advice: %s" % row)
    for word in words:
        check(word in row["what"], "%r is not in %s" % (word, row))


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, 1000))


def another_program(fs, url):
    host, port = url[len("tcp://"):].rsplit(":", 1)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((host, int(port)))
        other.listen()
        code, found = doctor(fs)
    is_found(found, "port of server 1", "failure", url, "another program")
    check(code == 1, "exit code %d" % code)


def no_store(fs, store):
    os.rename(store, store + ".away")
    code, found = doctor(fs)
    os.rename(store + ".away", store)
    is_found(found, "store of server 2", "failure", store)
    check(code == 1, "exit code %d" % code)


def main():
    with Cluster(io=1) as fs:
        fs.up()
        code, found = doctor(fs)
        is_found(found, "port of server 1", "ok", "the server listens there")
        check(code == any(row["verdict"] == "failure" for row in found.values()), "exit code %d: %s" % (code, found))
        is_found(doctor(fs, preexec_fn=few_descriptors)[1], "descriptors", "warning", "1000")
        fs.spate("down", "-q", "--dir", fs.dir)
        is_found(doctor(fs)[1], "port of server 1", "ok", "is free")
        another_program(fs, found["port of server 1"]["what"].split()[0])
        no_store(fs, found["store of server 2"]["what"].split(" has ")[0])
        refused = subprocess.run([SPATE, "--fs", fs.dir + "/nothing", "doctor"], capture_output=True, text=True, timeout=60)
        check(refused.returncode == 1 and "nothing" in refused.stderr, "a file system that is not there: %s" % refused)


main()
