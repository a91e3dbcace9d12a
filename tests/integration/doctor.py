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


def a_broken_configuration(fs):
    """It is a finding as others are, and the machine is looked at all the same."""
    with open(fs.dir + "/spate.toml", encoding="utf-8") as file:
        whole = file.read()
    for text, word in ((whole + "[nonsense]\n", "nonsense"), (None, "there is no")):
        if text is None:
            os.unlink(fs.dir + "/spate.toml")
        else:
            with open(fs.dir + "/spate.toml", "w", encoding="utf-8") as file:
                file.write(text)
        code, found = doctor(fs)
        is_found(found, "configuration", "failure", word)
        check(code == 1 and "kernel" in found and "descriptors" in found and "port of server 1" not in found, found)
    with open(fs.dir + "/spate.toml", "w", encoding="utf-8") as file:
        file.write(whole)
    check("configuration" not in doctor(fs)[1], "it is mended and is told nevertheless")


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
        a_broken_configuration(fs)


main()
