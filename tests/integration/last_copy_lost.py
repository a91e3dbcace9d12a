#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server that alone has the newest copy is gone for good. Nothing goes on until an operator accepts the loss: `spate server lost` for
mirrored data, with --meta `spate coord restore --without` for names (skipped where there is no etcd: SPATE_ETCD names it, else the PATH). The
commands refuse while the server answers, and do nothing without --accept-loss. A server that comes back afterwards follows."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys

from cluster import SPATED, Cluster, check, free_ports, skip, stands_still, wait_until
from mirror import health, restart, wait_until_whole

METAS, VOTES = 2, 3
HASTY = {"SPATE_CLIENT_DEADLINE": "4s"}  # a command that need not succeed
OLD, NEW, LATER = b"old " * 20000, b"new " * 20000, b"later " * 20000


def primary(fs, path):
    return json.loads(fs.spate("getstripe", "--json", path))[0]["slots"][0][0] // 256


def start(fs, number):
    """Starts one server alone: `spate up` would start the lost one, too."""
    with open("%s/log/server-%d.log" % (fs.dir, number), "ab") as log:
        child = subprocess.Popen([SPATED, "--config", fs.dir + "/spate.toml", "--server", str(number)], env=fs.env, stdout=log, stderr=log)
    fs.seen.add(child.pid)
    with open("/proc/%d/stat" % child.pid) as f:
        begun = f.read().rsplit(")", 1)[1].split()[19]
    with open("%s/run/server-%d.pid" % (fs.dir, number), "w") as f:
        f.write("%d %s\n" % (child.pid, begun))


@contextlib.contextmanager
def stands_still_meanwhile(fs, server):
    """Also after a failure it goes on, since `spate down` would wait for it."""
    pid = fs.pids()[server]
    fs.kill(server, sig=signal.SIGSTOP)
    try:
        yield
        check(stands_still(pid), "the lost server runs")
    finally:
        os.kill(pid, signal.SIGCONT)


def is_alone(fs, server):
    return lambda: [row["server"] for row in health(fs).get("absent", [])] == [server] and health(fs)["degraded"] == health(fs)["groups"]


def data_are_lost(fs):
    fs.up("--replicas", "2")
    fs.spate("setstripe", "-c", "1", "spate:/")
    for number in range(4):  # some in each group
        fs.spate("put", "spate:/some-%d" % number, input=OLD)
    fs.spate("put", "spate:/file", input=OLD)
    wait_until_whole(fs)
    newer = primary(fs, "spate:/file")
    older = 5 - newer  # the other one of 2 and 3
    fs.kill(older)
    wait_until(is_alone(fs, older), "the dead server is left out", 60)
    fs.spate("put", "spate:/file", input=NEW)
    for words in (("lost",), ("lose", "2"), ("add", "a", "b")):
        check(fs.run("server", *words).returncode == 2, "spate server %s is no usage error" % (words,))
    for word in ("1", "9", "x", "-"):
        told = fs.fails("server", "lost", word, "--accept-loss")
        check("there is no io server" in told, "server lost %s: %s" % (word, told))
    told = fs.fails("server", "lost", str(newer), "--accept-loss")
    check("server %d answers, so it is not lost" % newer in told, "while it runs: %s" % told)
    with stands_still_meanwhile(fs, newer):  # it is not lost after all
        start(fs, older)
        done = fs.run("cat", "spate:/file", env=HASTY)
        check(done.returncode == 1, "an older copy is read without the operator's word: %s" % done.stdout[:20])
        said = fs.run("status").stdout.decode()
        check("wait for server %d, which alone has their newest copy" % newer in said, "status does not say what waits: %s" % said)
        told = fs.fails("server", "lost", str(newer))
        check("would be LOST" in told and "server %d (" % older in told and "--accept-loss" in told, "without the word: %s" % told)
        told = fs.fails("server", "lost", str(older), str(newer), "--accept-loss")
        check("server %d answers" % older in told, "a server that runs is named, too: %s" % told)
        done = []

        def is_accepted():
            done[:] = [fs.run("server", "--json", "lost", str(newer), "--accept-loss")]
            return done[0].returncode == 0
        wait_until(is_accepted, "the loss is accepted", 30)
        told = json.loads(done[0].stdout)
        check(told["changed"] == told["groups"] > 0 and told["leads"] == [{"server": older, "groups": told["changed"]}], "server lost: %s" % told)
        check(fs.spate("cat", "spate:/file") == OLD, "the older copy is not what is read")
        check(b"Nothing needs to be done" in fs.spate("server", "lost", str(newer), "--accept-loss"), "a second time it changes something")
        fs.spate("put", "spate:/other", input=LATER)
    wait_until_whole(fs)
    check(primary(fs, "spate:/file") == older, "the server that was lost leads")
    check((fs.spate("cat", "spate:/file"), fs.spate("cat", "spate:/other")) == (OLD, LATER), "what was lost is back")
    fs.kill(older)
    wait_until(lambda: fs.run("cat", "spate:/file", env=HASTY).stdout == OLD, "the server that was lost has the older copy", 60)
    restart(fs)
    wait_until_whole(fs)
    fs.fsck("--contents")
    a_killed_server_returns(fs)


def a_killed_server_returns(fs):
    newer = primary(fs, "spate:/file")
    older = 5 - newer
    fs.kill(older)
    wait_until(is_alone(fs, older), "the dead server is left out", 60)
    fs.spate("put", "spate:/file", input=NEW)
    fs.spate("rm", "spate:/other")
    fs.kill(newer)
    start(fs, older)
    wait_until(lambda: fs.run("server", "lost", str(newer), "--accept-loss").returncode == 0, "the loss is accepted", 30)
    check(fs.spate("cat", "spate:/file") == OLD, "the older copy is not what is read")
    fs.spate("put", "spate:/file", input=LATER)
    restart(fs)
    wait_until_whole(fs)
    check(primary(fs, "spate:/file") == older and fs.spate("cat", "spate:/file") == LATER, "the server that was lost leads")
    fs.kill(older)
    wait_until(lambda: fs.run("cat", "spate:/file", env=HASTY).stdout == LATER, "the server that was lost has the newer history", 60)
    restart(fs)
    wait_until_whole(fs)


def parts(fs):
    return {row["server"]: (row["group"].split()[0], row["pid"]) for row in json.loads(fs.run("status", "--json").stdout or b"[]") if "group" in row}


def up(fs):
    fs.spate("up", "-q", "--dir", fs.dir, "--meta", str(METAS), "--io", "1", "--port", str(fs.port))
    fs.seen.update(fs.pids().values())


def leader(fs):
    return next((server for server, (part, _) in parts(fs).items() if part == "leads"), None)


def names(fs):
    return fs.run("ls", "spate:/", env=HASTY).stdout.decode().split()


def older_store_leads(fs, older, newer, new, later):
    start(fs, older)
    check(fs.run("ls", "spate:/", env=HASTY).returncode == 1, "an older store leads without the operator's word")
    told = fs.fails("coord", "restore", "--without", str(newer))
    check("would be LOST" in told and "server %d would lead" % older in told, "without the word: %s" % told)
    told = fs.fails("coord", "restore", "--accept-loss")
    check("server %d does not answer" % newer in told, "without the number: %s" % told)
    fs.spate("coord", "restore", "--without", str(newer), "--accept-loss")
    wait_until(lambda: leader(fs) == older, "the older one leads", 60)
    check("old" in names(fs) and new not in names(fs), "names: %s" % names(fs))
    done = fs.run("mkdir", "spate:/" + later)  # the command mentions that a server does not answer
    check(done.returncode == 0, "mkdir: %s" % done.stderr)


def names_are_lost(fs):
    up(fs)
    whole = lambda: sorted(part for part, _ in parts(fs).values()) == ["backup", "leads"]
    wait_until(whole, "one leads and one is a backup", 60)
    fs.spate("mkdir", "spate:/old")
    for stops in (True, False):
        newer = leader(fs)
        older = 3 - newer
        new, later = "new-%s" % stops, "later-%s" % stops
        fs.kill(older)
        wait_until(lambda: fs.run("mkdir", "spate:/" + new, env=HASTY).returncode == 0, "the other one goes on alone", 60)
        told = fs.fails("coord", "restore", "--without", str(newer), "--accept-loss")
        check("this server answers, so it must take part" in told, "while it runs: %s" % told)
        if stops:
            with stands_still_meanwhile(fs, newer):
                older_store_leads(fs, older, newer, new, later)
        else:
            fs.kill(newer)
            older_store_leads(fs, older, newer, new, later)
            up(fs)
        wait_until(whole, "both hold everything again", 60)
        check(leader(fs) == older and new not in names(fs) and later in names(fs), "what was lost is back: %s" % names(fs))
        fs.kill(older)
        wait_until(lambda: leader(fs) == newer, "the other one leads", 60)
        check(new not in names(fs) and later in names(fs), "what was lost is back: %s" % names(fs))
        up(fs)
        wait_until(whole, "both hold everything again", 60)
    fs.fsck()


if __name__ == "__main__":
    if sys.argv[1:] != ["--meta"]:
        with Cluster(io=2) as cluster:
            data_are_lost(cluster)
    elif os.environ.get("SPATE_ETCD") or shutil.which("etcd"):
        with Cluster(io=METAS) as cluster:
            cluster.port = free_ports(METAS + 1 + 2 * VOTES)
            names_are_lost(cluster)
    else:
        skip("there is no etcd (Debian: etcd-server; or name it with SPATE_ETCD)")
