# SPDX-License-Identifier: Apache-2.0
"""Debian's Slurm with several nodes on this machine: a controller and a slurmd for each node, with a munged, ports and folders of their own."""
import os
import shutil
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests", "integration"))
from cluster import check, free_ports, skip, wait_until  # noqa: E402,F401

CONF = """ClusterName=spatetest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
CredType=cred/munge
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool-%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
InactiveLimit=0
KillWait=10
PlugStackConfig={root}/plugstack.conf
Epilog={root}/epilog
PrologFlags=Alloc
{more}
{nodes}
PartitionName=all Nodes={names} Default=YES State=UP MaxTime=10 OverSubscribe=NO
"""


def open_fuse_to_users():
    """Debian lets every user open /dev/fuse, but this container may not. The test goes on in a mount namespace where
    users may."""
    if not os.path.exists("/dev/fuse") or not shutil.which("fusermount3"):
        skip("needs /dev/fuse and fusermount3")
    if os.stat("/dev/fuse").st_mode & 0o006 == 0o006:
        return
    script = ('umount -l -a -t fuse.spate || true; mount -t tmpfs -o mode=755 tmpfs /mnt && mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse && umount -l /mnt && exec "$@"')
    os.execvp("unshare", ["unshare", "--mount", "sh", "-euc", script, "sh", sys.executable, *sys.argv])


class Slurm:
    def __init__(self, root, nodes, epilog, more=""):
        self.root = root
        self.names = ["n%d" % (at + 1) for at in range(nodes)]
        self.port = free_ports(nodes + 1)
        self.env = dict(os.environ, SLURM_CONF=root + "/slurm.conf", HOME=root, XDG_STATE_HOME=root + "/home-state", PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        self.processes = {}
        self.user = None  # the user who submits; None: root
        for folder in ("munge", "state", *("spool-" + name for name in self.names)):
            os.makedirs(root + "/" + folder, mode=0o755)
        open(root + "/plugstack.conf", "w", encoding="utf-8").close()
        with open(root + "/epilog", "w", encoding="utf-8") as file:
            file.write(epilog)
        os.chmod(root + "/epilog", 0o755)
        lines = ["NodeName=%s NodeAddr=127.0.0.1 NodeHostname=%s Port=%d CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 State=UNKNOWN"
                 % (name, socket.gethostname(), self.port + 1 + at) for at, name in enumerate(self.names)]
        with open(root + "/slurm.conf", "w", encoding="utf-8") as file:
            file.write(CONF.format(root=root, host=socket.gethostname(), port=self.port, nodes="\n".join(lines), names=",".join(self.names), more=more))

    def start(self):
        munge = self.root + "/munge/"
        with open(os.open(munge + "key", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(os.urandom(128))
        self.run("munged", ["munged", "--foreground", "--force", *("--%s=%s" % pair for pair in (
            ("key-file", munge + "key"), ("socket", munge + "socket"), ("pid-file", munge + "pid"), ("log-file", munge + "log"), ("seed-file", munge + "seed")))])
        wait_until(lambda: os.path.exists(munge + "socket"), "munged listens")
        self.run("slurmctld", ["slurmctld", "-D", "-f", self.env["SLURM_CONF"]])
        for name in self.names:
            self.run(name, ["slurmd", "-D", "-N", name, "-f", self.env["SLURM_CONF"]])
        wait_until(lambda: self.call("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * len(self.names), "all nodes are idle", 60)

    def run(self, name, words):
        with open("%s/%s.out" % (self.root, name), "ab") as log:
            self.processes[name] = subprocess.Popen(words, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def call(self, *words):
        return subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, check=False).stdout

    def submit(self, script, *options):
        path = "%s/job-%d.sh" % (self.root, len(os.listdir(self.root)))
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        done = subprocess.run(["sbatch", "--parsable", "--output=%s/job-%%j.out" % self.root, "--chdir=" + self.root, *options, path],
                              env=self.env, capture_output=True, text=True, timeout=60, check=False, **self.as_user())
        check(done.returncode == 0, "sbatch: " + done.stderr)
        return done.stdout.strip().split(";")[0]

    def as_user(self):
        return {"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}

    def state(self, job):
        return self.call("squeue", "-h", "-a", "-t", "all", "-j", job, "-o", "%T").strip()

    def wait_end(self, job):
        wait_until(lambda: self.state(job) in ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"), "job %s ends" % job, 180)
        return self.state(job)

    def output(self, job):
        try:
            with open("%s/job-%s.out" % (self.root, job), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def logs(self):
        for name in sorted(os.listdir(self.root)):
            if name.endswith((".log", ".out")):
                with open(self.root + "/" + name, encoding="utf-8", errors="replace") as file:
                    print("--- %s\n%s" % (name, file.read()[-4000:]), file=sys.stderr)

    def kill_node(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self):
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def need_slurm():
    if os.geteuid() != 0:
        skip("needs root, to run Slurm's services")
    path = os.environ["PATH"] + ":/usr/sbin"
    for name in ("slurmctld", "slurmd", "sbatch", "munged"):
        if not shutil.which(name, path=path):
            skip("needs %s (scripts/install-deps --suite slurm)" % name)
    os.environ["PATH"] = path
