#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/first-steps.md on a Debian that has only the packages that Spate lists as required."""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import BIN, check, skip  # noqa: E402

RELEASE = "bookworm"
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
WALK = """
export HOME=/home/newcomer PATH=/usr/bin:/bin
cd $HOME
spate up
echo hello | spate put spate:/file
spate run cat /spate/file
spate run ls -l /spate
spate status
spate df -h
spate down
spate destroy --yes
"""


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500, **more)
    check(done.returncode == 0, "%s: exit %d: %s" % (" ".join(words[:4]), done.returncode, done.stdout[-4000:]))
    return done.stdout


def packages():
    """Returns the packages that the programs need, without those that only building needs."""
    listed = subprocess.run([os.environ["SPATE_SOURCE"] + "/scripts/install-deps", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.split()[1:2] in (["library:"], ["fuse:"], ["nbd:"], ["tools:"])]


@contextlib.contextmanager
def bare_debian():
    """Yields the root of a Debian with no further packages and no started service. It exists while the block runs."""
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        skip("needs root and debootstrap")
    root = tempfile.mkdtemp(prefix="spate-test-")
    try:
        run("debootstrap", "--variant=minbase", RELEASE, root)
        os.chmod(root, 0o755)
        with open(os.open(root + "/usr/sbin/policy-rc.d", os.O_WRONLY | os.O_CREAT, 0o755), "w") as f:
            f.write("#!/bin/sh\nexit 101\n")  # services are not started
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def install(root, *what):
    """Installs packages, named by their names or by their files as seen below `root`."""
    run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", "mount -t proc proc %s/proc; exec chroot %s \"$@\"" % (root, root), "sh",
        "apt-get", "install", "-y", "-q", "--no-install-recommends", *what, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive", PATH=PATH))


def inside(root, script, user=0):
    """Runs a script there with its own network and returns its output. All processes that it has started end with it."""
    enter = ("mount -t proc proc %s/proc; mount -t tmpfs shm %s/dev/shm; exec chroot %s setpriv --reuid %d --regid %d --clear-groups sh -euc \"$1\""
             % (root, root, root, user, user))
    return run("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc",
               "ip link set lo up; mkdir -p %s/dev/shm; %s" % (root, enter), "sh", script, env=dict(os.environ, PATH=PATH))


def walk_as_newcomer(root):
    os.mkdir(root + "/home/newcomer")
    os.chown(root + "/home/newcomer", 1000, 1000)
    said = inside(root, WALK, user=1000)
    for words in ("Spate is up: 5 servers", "hello", "Stopped 5 servers", "Removed "):
        check(words in said, "%r is not in: %s" % (words, said))


def main():
    with bare_debian() as root:
        install(root, *packages())
        run("cmake", "--install", os.path.dirname(os.path.abspath(BIN)), "--prefix", "/usr", env=dict(os.environ, DESTDIR=root))
        run("chroot", root, "ldconfig", env={"PATH": PATH})
        walk_as_newcomer(root)


if __name__ == "__main__":
    main()
