#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate job` by `ssh {host}` with a real sshd: the file system is made on two nodes, staged in and out, and gone when it ends, also when the
sshd and with it every connection is killed. The sshd has keys, a port and a table of users of its own; it is not installed."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(os.environ["SPATE_SOURCE"], "tests", name) for name in ("integration", "vm")]
from cluster import BIN, SPATE, alive, check, free_ports, make_tree, same_tree, skip, wait_until  # noqa: E402
from job_in_slurm import parts  # noqa: E402
from vm import unpacked  # noqa: E402

SERVER = """Port {port}
ListenAddress 127.0.0.1
HostKey {root}/host
AuthorizedKeysFile {root}/me.pub
StrictModes no
PermitRootLogin yes
UsePAM no
PidFile none
"""
CLIENT = """Host one two
HostName 127.0.0.1
Port {port}
IdentityFile {root}/me
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
BatchMode yes
"""
START = """
cp /etc/passwd {root}/passwd
echo 'sshd:x:65533:65534::/nonexistent:/usr/sbin/nologin' >> {root}/passwd
mount --bind {root}/passwd /etc/passwd
mount -t tmpfs tmpfs /run
mkdir /run/sshd
exec {sshd} -D -e -f {root}/sshd.conf
"""


def start_sshd(root):
    sshd = unpacked("openssh-server") + "/usr/sbin/sshd"
    libraries = unpacked("libwrap0") + "/usr/lib/x86_64-linux-gnu:" + unpacked("libwrap0") + "/lib/x86_64-linux-gnu"
    values = {"root": root, "port": free_ports(1), "sshd": sshd}
    for name in ("host", "me"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", root + "/" + name], check=True)
    for name, text in (("sshd.conf", SERVER), ("ssh.conf", CLIENT)):
        with open(root + "/" + name, "w", encoding="ascii") as file:
            file.write(text.format(**values))
    with open(root + "/sshd.log", "wb") as log:
        return subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-euc", START.format(**values)],
                                env=dict(os.environ, LD_LIBRARY_PATH=libraries), stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def main():
    if os.geteuid() != 0 or not all(map(shutil.which, ("ssh", "ssh-keygen", "unshare"))):
        skip("needs root, ssh and unshare")
    root = tempfile.mkdtemp(prefix="spate-test-")
    disk, launcher = root + "/disk", "ssh -F %s/ssh.conf {host}" % root
    os.makedirs(disk)
    env = dict(os.environ, HOME=root, XDG_STATE_HOME=root + "/state")
    for variable in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        env.pop(variable, None)

    def job(*words):
        done = subprocess.run([SPATE, "job", *words, "--id", "by-ssh"], env=env, capture_output=True, text=True, timeout=180, check=False)
        check(done.returncode == 0, "%s: exit %d: %s" % (words[0], done.returncode, done.stderr))
        return done.stdout

    def up():
        job("up", "--hosts", "one,two", "--launcher", launcher, "--dir", disk, "--address", "127.0.0.1", "--keep")
    sshd = start_sshd(root)
    try:
        check_log = root + "/sshd.log"
        wait_until(lambda: b"Server listening" in open(check_log, "rb").read() or sshd.poll() is not None, "sshd listens")
        check(sshd.poll() is None, open(check_log, encoding="utf-8").read())
        make_tree(root + "/source", 30, 1)
        up()
        job("stage-in", root + "/source", "spate:/data")
        job("stage-out", "spate:/data", root + "/result")
        same_tree(root + "/source", root + "/result")
        job("down")
        check(not os.listdir(disk), "down leaves %s" % os.listdir(disk))
        up()
        os.kill(sshd.pid, signal.SIGKILL)  # all processes that it has started end with its process namespace
        sshd.wait()
        wait_until(lambda: not [pid for pid in parts(root) if alive(pid)], "no process is left", 60)
    finally:
        sshd.kill()
        sshd.wait()
        for pid in parts(root):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)


main()
