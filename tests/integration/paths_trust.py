#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""To whom a server passes descriptors of its datafiles. A process of the server's user gets one for writing. A process
of another user, who may read the file, gets one for reading, which cannot be turned into anything more."""
import os
import shutil
import sys

from cluster import BIN, Cluster, check, skip
from paths import Client, up_by_shm

MIB = 1 << 20
NOBODY = 65534


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def open_to_nobody(fs):
    """Gives another user the file system's name and key, as an administrator does."""
    with open(fs.dir + "/spate.toml") as f:
        text = f.read()
    key = fs.root + "/nobody.key"
    shutil.copy(fs.dir + "/keys/client.key", key)
    os.chmod(key, 0o600)
    os.chown(key, NOBODY, NOBODY)
    changed = "\n".join('client_key_file = "%s"' % key if line.startswith("client_key_file") else line for line in text.splitlines())
    check(changed != text, "no client_key_file in spate.toml")
    with open(fs.root + "/nobody.toml", "w") as f:
        f.write(changed + "\n")
    os.chmod(fs.root, 0o755)


def main():
    if os.getuid() != 0:
        skip("only root can become another user")
    env = {"SPATE_FLOW_BYPASS": "write", "SPATE_CLIENT_BYPASS": "write", "SPATE_NETWORK_SHM_USERS": "any"}
    with Cluster(io=1, env=env) as fs:
        up_by_shm(fs)
        open_to_nobody(fs)
        own = Client(fs)
        own.ok("create /mine 666", "write 0 %d 1" % MIB, "sync", "close")
        own.ok("open /mine", "lease", "close")
        check(own.say("allowed").startswith("read write"), "the server's own user may not write: " + own.say("allowed"))
        # A client that opened the file for writing only gets no descriptor for reading.
        own.ok("open /mine", "lease write", "close")
        check("read" not in own.say("allowed") and "write" in own.say("allowed"), "opened for writing, and good for: " + own.say("allowed"))
        own.end()
        fs.spate("down", "-q", "--dir", fs.dir)  # all leases have ended
        fs.up()
        try:
            other = Client(fs, fs.root + "/nobody.toml", preexec_fn=become_nobody)
        except PermissionError:
            skip("another user cannot run the programs in " + BIN)
        other.ok("open /mine")
        said = other.say("lease")
        check("does not run as the server's user" in said, "a lease to write for another user: " + said)
        other.ok("lease read")
        check(other.say("allowed") == "read", "another user's descriptor is good for: " + other.say("allowed"))
        other.ok("path bypass", "check 1 %d 1" % (MIB - 1))
        check(int(other.say("bypassed")) == MIB - 1, "it does not read by itself")
        said = other.say("write 0 %d 2" % MIB)
        check("does not run as the server's user" in said, "a write past the server: " + said)
        other.ok("path auto", "write 0 %d 2" % MIB, "check 0 %d 2" % MIB, "close")  # only with the rights that any user has
        other.end()


if __name__ == "__main__":
    sys.exit(main())
