#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users by munge, as real processes of several users with the test's own munged. A user without a key works as himself,
root is nobody, the operator keeps his key, and without munged the message names the reason."""
import json
import os
import shutil
import subprocess

from lib import BIN, SPATE, Cluster, check, need_root, skip, wait_until

ALICE, BOB, MUNGE = 65504, 65505, 65490  # users without accounts
MUNGED = "/usr/sbin/munged"


class Munged:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, mode=0o755)
        key = os.path.join(folder, "key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(os.urandom(128))
        for path in (folder, key):
            os.chown(path, MUNGE, MUNGE)
        self.socket = os.path.join(folder, "socket")
        options = ["--%s=%s/%s" % (name + end, folder, name) for name, end in (("key", "-file"), ("log", "-file"), ("pid", "-file"), ("seed", "-file"), ("socket", ""))]
        self.process = subprocess.Popen([MUNGED, "--foreground", *options], user=MUNGE, group=MUNGE, extra_groups=[], stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(self.socket), "munged listens")

    def stop(self):
        self.process.terminate()
        self.process.wait()


class People:
    def __init__(self, fs):
        self.fs = fs
        self.program = shutil.copy(SPATE, fs.root)  # the build may lie where other users have no access

    def run(self, uid, *args, **more):
        env = dict(self.fs.env, HOME="/nonexistent", SPATE_FS=self.fs.dir, **more.pop("env", {}))
        return subprocess.run([self.program, *args], user=uid, group=uid, extra_groups=[], env=env, capture_output=True, timeout=60, **more)

    def does(self, uid, *args, **more):
        done = self.run(uid, *args, **more)
        check(done.returncode == 0, "%d %s: exit %d %s" % (uid, args, done.returncode, done.stderr))
        return done.stdout

    def fails(self, uid, *args, **more):
        done = self.run(uid, *args, **more)
        check(done.returncode == 1, "%d %s: exit %d %s" % (uid, args, done.returncode, done.stdout))
        return done.stderr.decode()


def owner(fs, path):
    at = json.loads(fs.spate("stat", "--json", path))
    at = at[0] if isinstance(at, list) else at
    return at["uid"], at["gid"]


def main():
    need_root()
    if not os.access(MUNGED, os.X_OK):
        skip("needs munged (package munge)")
    with Cluster(io=2) as fs:
        os.chmod(fs.root, 0o711)
        munged = Munged(os.path.join(fs.root, "munge"))
        try:
            attack(fs, munged)
        finally:
            munged.stop()


def attack(fs, munged):
    by_munge = {"SPATE_AUTH_MUNGE": "yes", "SPATE_AUTH_MUNGE_SOCKET": munged.socket}
    audit = os.path.join(fs.root, "audit.log")
    fs.env.update(by_munge, SPATE_LOG_AUDIT=audit)
    fs.up()
    fs.env.update(SPATE_AUTH_MUNGE="no")  # the operator uses his key
    os.chmod(fs.dir, 0o711)
    os.chmod(fs.dir + "/spate.toml", 0o644)
    fs.spate("mkdir", "spate:/all")
    fs.spate("chmod", "1777", "spate:/all")
    fs.spate("put", "spate:/secret", input=b"of root")
    fs.spate("chmod", "600", "spate:/secret")
    people = People(fs)
    yes = dict(env=by_munge)
    people.does(ALICE, "put", "spate:/all/hers", input=b"of alice", **yes)
    check(owner(fs, "spate:/all/hers") == (ALICE, ALICE), "owner %s" % (owner(fs, "spate:/all/hers"),))
    people.does(ALICE, "chmod", "600", "spate:/all/hers", **yes)
    check(people.does(ALICE, "cat", "spate:/all/hers", **yes) == b"of alice", "what alice reads")
    check("permission denied" in people.fails(BOB, "cat", "spate:/all/hers", **yes), "bob reads what is hers")
    check("permission denied" in people.fails(0, "cat", "spate:/all/hers", **yes), "root reads what is hers")
    check("permission denied" in people.fails(0, "cat", "spate:/secret", **yes), "root is root")
    people.does(0, "put", "spate:/all/by-root", input=b"x", **yes)
    check(owner(fs, "spate:/all/by-root") == (65534, 65534), "root is %s" % (owner(fs, "spate:/all/by-root"),))
    check("only the operator" in people.fails(ALICE, "stats", **yes), "alice asks for statistics")
    fs.spate("stats")
    check("key" in people.fails(ALICE, "ls", "spate:/", env={"SPATE_AUTH_MUNGE": "no"}), "alice has no key")
    with open(audit) as f:
        lines = [json.loads(line) for line in f]
    check(any(one["event"] == "session" and one["uid"] == ALICE and one["key"].startswith("user 6d756e67") for one in lines), "no line: %s" % lines)
    fs.spate("key", "revoke", "6d756e67%08x" % BOB)
    check("was revoked" in people.fails(BOB, "ls", "spate:/", **yes), "bob is shut out")
    people.does(ALICE, "ls", "spate:/", **yes)
    munged.stop()
    said = people.fails(ALICE, "ls", "spate:/", env=dict(by_munge, SPATE_CLIENT_DEADLINE="2 s"))
    check("munge" in said and len(said.splitlines()) <= 2, "without munged: %r" % said)
    fs.spate("ls", "spate:/")
    fs.fsck()


main()
