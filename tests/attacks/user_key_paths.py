#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Block exports and the bypass path with keys of users: an export does what the key's user may do and no more, ends with the key, and
writes nothing with a key for reading; a server passes no descriptor of a file that the key's user may not open, also not to root."""
import os
import shutil
import signal
import subprocess
import sys

from key_users import ALICE, BOB, User, open_folder, says
from lib import BIN, Cluster, check, need_root, skip, wait_until
from paths import Client, up_by_shm

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests", "nbd"))
import nbd_wire as wire  # noqa: E402

MIB = 1 << 20


class Export:
    """`spate export` by a user with his key. .address is for wire.Connection. Without a URL the export has ended, and
    .said has its message."""

    def __init__(self, user, *args, uid=None):
        uid = user.uid if uid is None else uid
        os.chown(user.key, uid, uid)
        self.user = user
        self.process = subprocess.Popen([user.program, "export", "-p", "0", *args], user=uid, group=uid, extra_groups=[], env=user.env,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.said = "" if self.url else self.process.stderr.read()
        if self.url:
            self.address = ("127.0.0.1", int(self.url.split(":")[2].split("/")[0]))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        os.chown(self.user.key, self.user.uid, self.user.uid)


def refused(said, *words):
    says(said, *words)
    check(len(said.splitlines()) == 1, "more than a sentence: %r" % said)


def exports(fs, alice, bob):
    alice.spate("put", "spate:/all/disk", input=b"a" * MIB)
    alice.spate("chmod", "600", "spate:/all/disk")
    fs.spate("put", "spate:/root-only", input=b"r" * MIB)
    fs.spate("chmod", "600", "spate:/root-only")
    for user, uid, path in ((bob, BOB, "spate:/all/disk"), (alice, ALICE, "spate:/root-only"), (alice, 0, "spate:/root-only")):
        with Export(user, path, uid=uid) as export:
            refused(export.said, "permission denied")
    reader = User(fs, "reader", ALICE, "--read-only")
    with Export(reader, "spate:/all/disk") as export:
        refused(export.said, "is for reading only")
    with Export(reader, "-r", "spate:/all/disk") as export, wire.Connection(export.address) as client:
        client.go("")
        check(client.flags & wire.READ_ONLY, "a key for reading exports for writing")
        check(client.read(0, 4096) == b"a" * 4096, "what it reads")
        for command, data in ((wire.WRITE, b"x" * 4096), (wire.TRIM, b""), (wire.WRITE_ZEROES, b"")):
            error = client.request(command, 0, 4096, data=data).error
            check(error == wire.EPERM, "command %d by a key for reading: %d" % (command, error))
    check(alice.spate("cat", "spate:/all/disk") == b"a" * MIB, "it was written")


def revoked_export(fs):
    """The key is revoked while a client writes to the export."""
    lost = User(fs, "lost", ALICE)
    with Export(lost, "spate:/all/disk") as export, wire.Connection(export.address) as client:
        client.go("")
        def write_fails(offset, data):
            return client.request(wire.WRITE, offset, 4096, data=data).error or client.request(wire.FLUSH).error

        check(not write_fails(0, b"b" * 4096), "the export does not work")
        fs.spate("key", "revoke", lost.id)
        wait_until(lambda: write_fails(4096, b"c" * 4096), "a write fails after the key was revoked", 60)
        wait_until(lambda: client.request(wire.READ, 0, 4096).error, "a read fails after the key was revoked", 60)
    check(fs.spate("cat", "spate:/all/disk")[8192:] == b"a" * (MIB - 8192), "the rest has changed")


class PathClient(Client):
    """A path client that runs as a user with a key. User 0 is root, who may also use a user's key."""

    def __init__(self, user, uid):  # pylint: disable=super-init-not-called
        program = shutil.copy(os.path.join(BIN, "path_client"), user.home)
        with open(user.fs.dir + "/spate.toml", encoding="utf-8") as file:
            text = file.read()
        mine = os.path.join(user.home, "spate.toml")
        lines = ['client_key_file = "%s"' % user.key if line.startswith("client_key_file") else line for line in text.splitlines()]
        with open(mine, "w", encoding="utf-8") as file:
            file.write("\n".join(lines).replace('"keys/', '"%s/keys/' % user.fs.dir) + "\n")
        os.chmod(mine, 0o644)
        os.chown(user.key, uid, uid)
        self.process = subprocess.Popen([program, mine], env=user.env, user=uid, group=uid, extra_groups=[], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)


def bypass(fs, alice, bob):
    reader = User(fs, "passing", ALICE, "--read-only")
    for user, uid, said in ((alice, ALICE, "does not run as the server's user"), (reader, ALICE, "reading only"), (reader, 0, "reading only")):
        client = PathClient(user, uid)
        client.ok("lease read /all/disk")
        check(client.say("allowed").split()[0] == "read" and "write" not in client.say("allowed"), "good for: " + client.say("allowed"))
        for how in ("write", "both"):
            says(client.say("lease %s /all/disk" % how), said)
        for way in ("read", "write", "both"):
            says(client.say("lease %s /root-only" % way), "permission denied" if user is alice or way == "read" else "reading only")
        client.end()
        os.chown(user.key, ALICE, ALICE)
    stranger = PathClient(bob, BOB)
    says(stranger.say("lease read /all/disk"), "permission denied")
    stranger.end()


def revoked_bypass(fs):
    """Descriptors that a client got can be read until it closes them, as docs/security.md says. The server passes no
    new ones."""
    late = User(fs, "late", ALICE)
    client = PathClient(late, ALICE)
    client.ok("lease read /all/disk")
    fs.spate("key", "revoke", late.id)
    says(client.say("lease read /all/disk"), "revoked")
    client.end()


def main():
    need_root()
    if not os.path.exists(os.path.join(BIN, "path_client")):
        skip("path_client was not built")
    env = {"SPATE_FLOW_BYPASS": "write", "SPATE_CLIENT_BYPASS": "write", "SPATE_NETWORK_SHM_USERS": "any"}
    with Cluster(io=1, env=env) as fs:
        up_by_shm(fs)
        open_folder(fs)
        alice, bob = User(fs, "alice", ALICE), User(fs, "bob", BOB)
        exports(fs, alice, bob)
        bypass(fs, alice, bob)
        revoked_export(fs)
        revoked_bypass(fs)
        fs.fsck()


main()
