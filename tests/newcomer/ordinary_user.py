#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/first-steps.md, typed by a user who is not root and has nothing but a home, in a network of his own. With --readme: the first
session of README.md, each command as it stands."""
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import BIN, check, skip  # noqa: E402
from machines import blocks  # noqa: E402

# The usual ports may be in use, so the user gets his own network; he also gets his own processes, so that none is left
# behind.
# As on most machines, every user may use FUSE.
OPEN = "mount -t tmpfs fuse /mnt; mknod -m 666 /mnt/fuse c 10 229; mount --bind /mnt/fuse /dev/fuse"
OWN_TMP = "mount -t tmpfs -o mode=1777 tmp /tmp"  # README.md mounts there
ENTER = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", 'ip link set lo up; umount -l -a -t fuse.spate || true; (%s) 2> /dev/null || true; %s; exec "$@"']


def user():
    """Returns (words before the user's commands, the user's home). The user is nobody if this process is root."""
    if os.geteuid() != 0:
        skip("needs root, to become another user with a network of his own")
    nobody = pwd.getpwnam("nobody")
    return ["setpriv", "--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups"], nobody


def commands():
    """Returns the commands of the page, a line each, with the mount point below the user's home."""
    found = [text for where, text in blocks("first-steps.md") if where == "one-machine"]
    check(len(found) == 1, "docs/first-steps.md has %d blocks for one machine" % len(found))
    return [line.split("#")[0].strip().replace("/tmp/data", "$HOME/data") for line in found[0].splitlines()]


def script():
    up, mount, list_, umount, down = commands()
    return "\n".join([
        "set -eu", up, mount, list_,
        "echo hello > $HOME/data/file; mkdir $HOME/data/folder; cp $HOME/data/file $HOME/data/folder/",
        "test \"$(spate cat spate:/folder/file)\" = hello",
        "spate run cat /spate/file", "spate ls -la", "spate df -h", "spate du -h -s spate:/",
        "code=0; spate down 2> $HOME/refused || code=$?; test $code = 1; grep -q 'spate umount' $HOME/refused",
        umount, "code=0; spate umount $HOME/data 2> $HOME/refused || code=$?; test $code = 1; grep -q 'nothing is mounted' $HOME/refused",
        down, "code=0; spate ls 2> $HOME/refused || code=$?; test $code = 1; grep -q 'spate up' $HOME/refused",
        "rm -rf $HOME/.local/share/spate/log", up, "spate cat spate:/file", "spate destroy --yes", "spate list"])


def readme():
    """The commands of README.md after scripts/quickstart, which scripts/test-long quickstart types. What they promise is looked at in between."""
    with open(os.environ["SPATE_SOURCE"] + "/README.md", encoding="utf-8") as file:
        section = re.search(r"^## A first session\n(.*?)^## ", file.read(), re.S | re.M).group(1)
    typed = [line.split("  #")[0].strip() for line in re.findall(r"^    (\S.*)$", section, re.M)]
    check(typed[0] == "./scripts/quickstart" and typed[1].startswith("export PATH=$PWD/build/bin"), "the first commands of README.md: %s" % typed[:2])
    looks = {"spate mount -p /tmp/data": "diff -r --no-dereference /usr/include /tmp/data/include", "spate umount /tmp/data": "test ! -e /tmp/data/include"}
    check(set(looks) <= set(typed), "README.md mounts elsewhere: %s" % typed)
    lines = ["set -eu"]
    for command in typed[1:]:
        lines += [command, looks.get(command, ":")]
    # As the last line says, everything comes back.
    return "\n".join(lines + ["spate up", "spate cat spate:/include/stdio.h | cmp - /usr/include/stdio.h", "spate destroy --yes"])


def main():
    alone = sys.argv[1:] == ["--readme"]
    become, nobody = user()
    if alone and not os.access("/dev/shm", os.W_OK):
        skip("needs /dev/shm, since /tmp becomes another one")
    enter = [*ENTER[:-1], ENTER[-1] % (OPEN, OWN_TMP if alone else ":"), "sh"]
    home = tempfile.mkdtemp(prefix="spate-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    try:
        # Copies of the programs that the user may run, wherever the build is.
        os.mkdir(home + "/bin")
        for name in ("spate", "spated", "spate-mount", "spate-broker"):
            shutil.copy(os.path.join(BIN, name), home + "/bin")
        shutil.copytree(os.path.join(BIN, "../lib"), home + "/lib")
        os.mkdir(home + "/home")
        os.chmod(home, 0o755)
        os.chown(home + "/home", nobody.pw_uid, nobody.pw_gid)
        os.mkdir(home + "/home/build")
        os.symlink(home + "/bin", home + "/home/build/bin")
        path = "/usr/bin:/bin:/usr/sbin:/sbin"
        env = {"HOME": home + "/home", "PATH": path if alone else home + "/bin:" + path, "USER": "nobody"}
        if subprocess.run(enter + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            skip("no network of its own can be made here")
        if shutil.which("fusermount3") is None or subprocess.run(enter + become + ["sh", "-c", "exec 3<> /dev/fuse"], stderr=subprocess.DEVNULL).returncode != 0:
            skip("FUSE cannot be used here by a user without root")
        done = subprocess.run(enter + become + ["sh", "-c", readme() if alone else script()], env=env, cwd=home + "/home", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1100 if alone else 240)
        check(done.returncode == 0, "exit %d: %s" % (done.returncode, done.stdout))
        for said in ("Spate is up: 5 servers", "stdio.h" if alone else "hello", "Stopped 5 servers", "Removed " + home):
            check(said in done.stdout, "%r is not in: %s" % (said, done.stdout))
        check(not os.path.exists(home + "/home/.local/share/spate"), "a removed file system has left something")
    finally:
        shutil.rmtree(home, ignore_errors=True)


main()
