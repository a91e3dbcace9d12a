#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/logrotate.conf with the real logrotate: servers go on in new files, no line is lost, audit logs and the log of a mount are turned as
well, and nothing is turned before its time."""
import base64
import gzip
import json
import os
import shutil

from cluster import check, skip, wait_until
from machines import Machines, alone

SETUP = """
rm -rf /var/log/spate /var/log/spate-mount  # of this machine alone
mkdir -p /etc/spate /etc/logrotate.d /mnt/data
cd /etc/spate
(umask 077; openssl rand -hex 32 > client.key; openssl rand -hex 32 > server.key)
cat > spate.toml <<END
[fs]
id = "1234"
client_key_file = "client.key"
server_key_file = "server.key"
[log]
level = "info,rpc=debug"
file = "/var/log/spate/servers.log"
audit = "/var/log/spate/audit.log"
[[servers]]
id = 1
urls = ["tcp://node1:7400"]
roles = ["meta"]
keyval = "/var/lib/spate/meta"
[[servers]]
id = 2
urls = ["tcp://node1:7401"]
roles = ["io"]
storage = ["/srv/spate/2"]
END
spate-setup --format
spate mount /mnt/data
cp /usr/share/doc/spate/logrotate.example /etc/logrotate.d/spate
chmod 644 /etc/logrotate.d/spate
"""
TURN = "logrotate %s --state /run/logrotate.state /etc/logrotate.d/spate 2>&1"
LOGS = "/var/log/spate/"
MOUNT_LOGS = "/var/log/spate-mount/"


def read(machines, path):
    """The text of a file of the machine, unpacked."""
    data = machines.type("node1", "base64 -w0 " + path)
    raw = base64.b64decode(data)
    return (gzip.decompress(raw) if path.endswith(".gz") else raw).decode()


def files(machines, folder):
    return set(machines.type("node1", "ls " + folder).split())


def mark(machines, name):
    """Makes both servers write a line each that no other line looks like; the audit log gets one of an operator's deed."""
    machines.type("node1", "SPATE_CLIENT_TAG=%s spate ls spate:/; spate key revoke %016x" % (name, hash_of(name)))


def hash_of(name):
    return int.from_bytes(name.encode().ljust(8, b"x")[:8], "big")


def has_audit(text, name):
    return any("%016x" % hash_of(name) in line for line in text.splitlines() if json.loads(line))


def too_early(machines):
    """Without --force, a log that was just looked at is left alone."""
    said = machines.type("node1", TURN % "" + "; " + TURN % "")
    check(said == "" and files(machines, LOGS) == {"servers.log", "audit.log"}, "turned before its time: %s %s" % (said, files(machines, LOGS)))


def turned(machines):
    mark(machines, "first")
    lines = len(read(machines, LOGS + "servers.log").splitlines())
    said = machines.type("node1", TURN % "--force")
    check(said == "", "logrotate: " + said)
    check(files(machines, LOGS) == {"servers.log", "servers.log.1", "audit.log", "audit.log.1"}, "files: %s" % files(machines, LOGS))
    old = read(machines, LOGS + "servers.log.1")
    check(len(old.splitlines()) >= lines, "lines are gone: %d of %d" % (len(old.splitlines()), lines))
    mark(machines, "second")
    wait_until(lambda: has_audit(read(machines, LOGS + "audit.log"), "second"), "the audit log goes on in a new file")
    wait_until(lambda: read(machines, LOGS + "servers.log").strip(), "the log goes on in a new file")
    check(has_audit(read(machines, LOGS + "audit.log.1"), "first") and not has_audit(read(machines, LOGS + "audit.log.1"), "second"), "the old audit log")
    owners = machines.type("node1", "stat -c '%U %a' " + LOGS + "servers.log " + LOGS + "audit.log").split("\n")
    check(owners[:2] == ["spate 640", "spate 640"], "owners and modes: %s" % owners)
    held = machines.type("node1", "for file in /run/stand-in/spated@*.pid; do ls -l /proc/$(cat $file)/fd; done")
    check("servers.log.1" not in held and "audit.log.1" not in held, "a server still has an old file open: " + held)


def packed(machines):
    """The next turn packs what the first one has moved aside; it is whole."""
    before = {name: read(machines, LOGS + name + ".log.1") for name in ("servers", "audit")}
    check(machines.type("node1", TURN % "--force") == "", "logrotate says something")
    for name, text in before.items():
        check(read(machines, LOGS + name + ".log.2.gz") == text, name + ".log.2.gz differs from what it was")
    machines.type("node1", "spate ls spate:/; spate status")


def of_a_mount(machines, first):
    """A mount keeps its file open, so that one is copied and cut. `first`: what it had logged before."""
    status = machines.type("node1", "spate mount --status /mnt/data")
    check("\nlog /var/log/spate-mount/mount.log" in status, "the mount logs elsewhere: " + status)
    old = sorted(files(machines, MOUNT_LOGS) - {"mount.log"}, reverse=True)  # an empty file is not turned again
    kept = "".join(read(machines, MOUNT_LOGS + name) for name in old)
    check(first and kept.startswith(first), "%s have %r, the mount had logged %r" % (old, kept, first))
    machines.type("node1", "spate umount /mnt/data")
    wait_until(lambda: read(machines, MOUNT_LOGS + "mount.log").strip(), "the mount goes on in its file")


def main():
    alone()
    if shutil.which("logrotate") is None and not os.path.exists("/usr/sbin/logrotate"):
        skip("needs logrotate")
    with Machines(["node1"]) as machines:
        machines.install()
        machines.type("node1", SETUP)
        mark(machines, "before")
        too_early(machines)
        first = read(machines, MOUNT_LOGS + "mount.log")
        turned(machines)
        packed(machines)
        of_a_mount(machines, first)


main()
