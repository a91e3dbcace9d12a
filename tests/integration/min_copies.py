#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A minimum of two copies: with one of two io servers away, writes wait and reads go on, and the writes are completed when the server is
back; `spate init --min` makes a file system in which that holds for all files. The same for the names with one of two meta servers away
(skipped where there is no etcd: SPATE_ETCD names it, else the PATH)."""
import json
import os
import shutil
import subprocess

from cluster import SPATE, Cluster, check, free_ports, wait_until
from mirror import health, restart, wait_until_whole

METAS, VOTES = 2, 3
HASTY = {"SPATE_CLIENT_DEADLINE": "4s"}  # a command that need not succeed
PATIENT = {"SPATE_CLIENT_DEADLINE": "10min"}


def started(fs, *words, data=b""):
    child = subprocess.Popen([SPATE, *words], env={**fs.env, **PATIENT}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    fs.seen.add(child.pid)
    child.stdin.write(data)
    child.stdin.close()
    return child


def ends(child, what):
    wait_until(lambda: child.poll() is not None, what + " is completed", 60)
    check(child.returncode == 0, "%s: %s" % (what, child.stdout.read()))


def data_wait(fs):
    fs.up()
    fs.spate("mkdir", "spate:/safe")
    told = fs.fails("policy", "set", "spate:/safe", "replicas=2", "min=3")
    check("min=3 is more than replicas=2" in told, told)
    fs.spate("policy", "set", "spate:/safe", "replicas=2", "min=2")
    told = json.loads(fs.spate("policy", "--json", "get", "spate:/safe"))
    check((told[0]["replicas"], told[0]["min"]) == (2, 2), "policy get: %s" % told)
    fs.spate("put", "spate:/safe/file", input=b"x" * 100000)
    wait_until_whole(fs)
    for server in (2, 3):
        fs.kill(server)
        wait_until(lambda: health(fs)["degraded"] > 0, "the dead server is noticed", 30)
        told = fs.fails("put", "spate:/safe/late", input=b"y" * 1000, env={**fs.env, **HASTY})
        check("has 1 of at least 2 copies (min_copies)" in told, "the error does not say why: %s" % told)
        child = started(fs, "put", "spate:/safe/file-%d" % server, data=b"z" * 50000)
        check(fs.run("cat", "spate:/safe/file").stdout == b"x" * 100000, "a file cannot be read while writes wait")
        check(health(fs)["waiting"] > 0, "status does not say that writes wait: %s" % health(fs))
        check("wait for more copies (min_copies)" in fs.run("status").stdout.decode(), "status does not say that writes wait")
        check(child.poll() is None, "a write was answered with one copy")
        restart(fs)
        ends(child, "the write")
        check(fs.spate("cat", "spate:/safe/file-%d" % server) == b"z" * 50000, "other bytes than those that were written")
        wait_until_whole(fs)
    fs.fsck()


def init_sets_it(fs):
    fs.dir = fs.root + "/spate"  # `spate init` makes the file system there
    words = ["init", "127.0.0.1", "--storage", fs.root, "--port", str(fs.port), "--replicas", "2"]
    for wrong, why in (("3", "--min 3 is more than --replicas 2"), ("9", "--min takes 1 to 8"), ("0", "--min takes 1 to 8")):
        told = fs.fails(*words, "--min", wrong)
        check(why in told, "init --min %s: %s" % (wrong, told))
    fs.spate(*words, "-q", "--min", "2")
    fs.seen.update(fs.pids().values())
    told = json.loads(fs.spate("policy", "--json", "get", "spate:/"))
    check((told[0]["replicas"], told[0]["min"]) == (2, 2), "policy get after init: %s" % told)
    told = fs.fails("init", "--storage", fs.root, "--min", "1")
    check("holds a file system already" in told, "init of a file system that exists: %s" % told)


def up(fs):
    fs.spate("up", "-q", "--dir", fs.dir, "--meta", str(METAS), "--io", "1", "--port", str(fs.port))
    fs.seen.update(fs.pids().values())


def parts(fs):
    return {row["server"]: row["group"] for row in json.loads(fs.run("status", "--json").stdout or b"[]") if "group" in row}


def names_wait(fs):
    up(fs)
    whole = lambda: sorted(part.split()[0] for part in parts(fs).values()) == ["backup", "leads"]
    wait_until(whole, "one leads and one is a backup", 60)
    told = fs.fails("coord", "min", "3")
    check("coord min takes 1 to 2" in told, told)
    fs.spate("coord", "min", "2")
    check(json.loads(fs.spate("coord", "--json", "min")) == {"min": 2, "serving": 2, "members": 2}, "coord min shows what it has set")
    wait_until(lambda: any("at least 2 copies" in part for part in parts(fs).values()), "status shows the minimum", 30)
    fs.spate("put", "spate:/file", input=b"x" * 1000)
    for part in ("backup", "leads"):
        server = next(number for number, text in parts(fs).items() if text.startswith(part))
        fs.kill(server)
        wait_until(lambda: any("changes wait" in text for text in parts(fs).values()), "status says that changes wait", 60)
        told = fs.fails("mkdir", "spate:/late", env={**fs.env, **HASTY})
        check("too few meta servers hold the name space" in told, "the error does not say why: %s" % told)
        child = started(fs, "mkdir", "spate:/directory-%d" % server)
        check(fs.run("cat", "spate:/file").stdout == b"x" * 1000, "a file cannot be read while changes wait")
        check(child.poll() is None, "a change was answered that one meta server holds")
        up(fs)
        ends(child, "the change")
        wait_until(whole, "both hold everything again", 60)
    fs.kill(next(number for number, text in parts(fs).items() if text == "backup"))
    fs.spate("coord", "min", "1")
    done = fs.run("mkdir", "spate:/alone", env={**fs.env, **PATIENT})  # it says that a server has died
    check(done.returncode == 0, "with a minimum of 1 no change is made by one server: %s" % done.stderr)
    up(fs)
    wait_until(whole, "both hold everything again", 60)
    fs.fsck()


if __name__ == "__main__":
    with Cluster(io=2) as cluster:
        data_wait(cluster)
    with Cluster(io=1) as cluster:
        init_sets_it(cluster)
    if os.environ.get("SPATE_ETCD") or shutil.which("etcd"):
        with Cluster(io=METAS) as cluster:
            cluster.port = free_ports(METAS + 1 + 2 * VOTES)
            names_wait(cluster)
