#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The audit log of real servers: a line for each kind of refusal and for what an operator does, with who, what, from where and the outcome;
none for what users do. Each line is JSON whatever a client calls itself, and a flood of strangers fills no disk."""
import json
import os
import signal
import socket
import subprocess

from lib import SPATE, Cluster, check, need_root, wait_until

EVENTS = {"refused", "dropped", "admin", "session"}
ALICE = 65504


def lines(fs, name="audit.log"):
    """Returns every line. Fails if a line is no JSON object with all required fields."""
    out = []
    with open(os.path.join(fs.root, name), "rb") as f:
        for line in f:
            check(line.endswith(b"\n") and line.isascii() and b"\x1b" not in line and len(line) < 2048, "line %r" % line)
            one = json.loads(line)
            check(one["event"] in EVENTS and {"time", "server", "outcome", "what", "from", "key"} <= set(one), "line %s" % one)
            out.append(one)
    return out


def find(fs, seconds=10, **wanted):
    """Returns the line that has these values and whose `what` contains this text."""
    def fits(one):
        return all(value in one[key] if key == "what" else one.get(key) == value for key, value in wanted.items())

    wait_until(lambda: any(map(fits, lines(fs))), "a line %s in %s" % (wanted, lines(fs)[-5:]), seconds)
    return [one for one in lines(fs) if fits(one)][-1]


def as_alice(fs, key, *args):
    """Runs a command as root with alice's key, which makes root act as alice."""
    return subprocess.run([SPATE, "--fs", fs.dir, "--set", "fs.client_key_file=" + key, *args], capture_output=True, text=True, env=fs.env, timeout=60)


def keys(fs):
    key = os.path.join(fs.root, "alice.key")
    issued = json.loads(fs.spate("key", "issue", "--uid", str(ALICE), "--gid", str(ALICE), "-o", key, "--json"))["id"]
    check(as_alice(fs, key, "ls", "spate:/").returncode == 0, "alice cannot list")
    opened = find(fs, event="session", key="user " + issued, uid=ALICE)
    check(opened["server"] == 1 and opened["from"] and "spate" in opened["description"], "session: %s" % opened)
    before = len(lines(fs))
    check(as_alice(fs, key, "stats").returncode == 1, "alice asks for statistics")
    find(fs, event="refused", op="stats", outcome="not_permitted", key="user " + issued, uid=ALICE, what="only the operator")
    check(len(lines(fs)) > before, "no new line")
    fs.spate("key", "revoke", issued)
    done = find(fs, event="admin", op="revoke_keys", outcome="ok", key="client", uid=0, what="revoke keys " + issued)
    check(done["client"] > 0, "who has revoked it: %s" % done)
    check(as_alice(fs, key, "ls", "spate:/").returncode == 1, "a revoked key")
    find(fs, event="refused", outcome="unauthenticated", what=issued + " was revoked")
    wrong = os.path.join(fs.root, "wrong.key")
    with open(wrong, "w") as f:
        f.write("5a" * 32 + "\n")
    os.chmod(wrong, 0o600)
    check(as_alice(fs, wrong, "ls", "spate:/").returncode == 1, "a wrong key")
    refused = find(fs, event="refused", op="hello", key="none", outcome="unauthenticated", what="wrong client key")
    check("uid" not in refused, "a stranger has no uid: %s" % refused)


def repairs(fs):
    """fsck without --repair changes nothing, so it writes no line."""
    fs.fsck()
    check(not [one for one in lines(fs) if one.get("op") == "meta_repair"], "fsck has repaired: %s" % lines(fs))


def forged(fs):
    """Texts that a client puts into its own name."""
    name = 'x","uid":0,"event":"admin","what":"all is well'
    before = len(lines(fs))
    fs.spate("ls", "spate:/", env={"SPATE_CLIENT_TAG": name})
    check(len(lines(fs)) == before + 1, "one session, one line")
    check(not [one for one in lines(fs) if one.get("what") == "all is well"], "a forged line")


def flooded(fs):
    """Strangers whose first bytes are no message, and some with a wrong key."""
    before = len(lines(fs))
    port = fs.port
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", port), 10) as one:
            one.sendall(b"\0" * 64)
    wrong = os.path.join(fs.root, "wrong.key")
    for _ in range(40):
        as_alice(fs, wrong, "ls", "spate:/")
    check(len(lines(fs)) - before < 80, "%d lines of a flood" % (len(lines(fs)) - before))
    fs.spate("key", "revoke", "00000000000000ff")
    find(fs, event="admin", what="00000000000000ff")


def rotated(fs):
    path = os.path.join(fs.root, "audit.log")
    os.rename(path, path + ".1")
    fs.kill(1, sig=signal.SIGHUP)
    wait_until(lambda: os.path.exists(path), "a new file")
    fs.spate("key", "revoke", "00000000000000fe")
    find(fs, event="admin", what="00000000000000fe")
    check(not any("00000000000000fe" in one["what"] for one in lines(fs, "audit.log.1")), "in the old file")


need_root()
with Cluster(io=1) as fs:
    fs.env["SPATE_LOG_AUDIT"] = os.path.join(fs.root, "audit.log")
    fs.up()
    fs.spate("put", "spate:/f", input=b"x")
    fs.spate("rm", "spate:/f")
    check({one["event"] for one in lines(fs)} <= {"session", "admin"}, "what users do has no line: %s" % lines(fs))
    for attack in (keys, repairs, forged, flooded, rotated):
        attack(fs)
        print("%s ok" % attack.__name__, flush=True)
