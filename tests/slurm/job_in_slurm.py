#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate job` in Debian's Slurm with three nodes on this machine: a job stages in, computes and stages out; a job is cancelled while it stages;
a node's process is killed. Afterwards no process, no mount and no folder of the job is left."""
import os
import shutil
import signal
import tempfile

from slurm_cluster import Slurm, check, need_slurm, wait_until
from cluster import BIN, alive, make_tree, same_tree

EPILOG = """#!/bin/sh
{bin}/spate job clean --dir {disk} --id "$SLURM_JOB_ID" >> {root}/epilog.log 2>&1
exit 0  # another code would drain the node
"""
JOB = """#!/bin/bash
#SBATCH --nodes=3
set -e
export PATH={bin}:$PATH
spate job up --dir {disk} --address 127.0.0.1 {mount}
export SPATE_FS=$XDG_STATE_HOME/spate/jobs/$SLURM_JOB_ID
echo is up
{work}
echo is done
"""


def left(root):
    """Returns what jobs have left: folders, mounts, processes."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = [line for line in file if root in line]
    return os.listdir(root + "/disk") + mounts + ["process %d" % pid for pid in parts(root)]


def parts(root):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read()
            with open("/proc/%s/environ" % pid, "rb") as file:
                mine = os.fsencode(root) in file.read()
        except OSError:
            continue
        if mine and (b"spate-job" in words or b"spated" in words or b"spate-mount" in words):
            found.append(int(pid))
    return found


def wait_clean(slurm, why):
    wait_until(lambda: not left(slurm.root), "nothing is left after " + why, 90)


def script(slurm, work, mount=True):
    return JOB.format(bin=BIN, disk=slurm.root + "/disk", work=work, mount="--mount '%s/mnt-{host}'" % slurm.root if mount else "")


def whole_job(slurm, source):
    mount = os.access("/dev/fuse", os.R_OK | os.W_OK) and os.path.exists(BIN + "/spate-mount")
    work = "spate job stage-in %s spate:/data\n" % source
    if mount:
        work += "srun --overlap --nodes=3 --ntasks=3 bash -c 'diff -r %s %s/mnt-$SLURMD_NODENAME/data && echo same on $SLURMD_NODENAME'\n" % (source, slurm.root)
    work += "spate job status\nspate job stage-out spate:/data %s/result" % slurm.root
    job = slurm.submit(script(slurm, work, mount))
    ended = slurm.wait_end(job)
    check(ended == "COMPLETED" and "is done" in slurm.output(job), "job %s: %s: %s" % (job, ended, slurm.output(job)))
    same_tree(source, slurm.root + "/result")
    check(not mount or slurm.output(job).count("same on") == 3, "what the nodes saw: " + slurm.output(job))
    wait_clean(slurm, "a whole job")


def cancelled_while_staging(slurm, source):
    """Cancels a job while it stages, also with SIGKILL, which leaves the cleanup to the epilog."""
    for signals in ((), ("--signal=KILL", "--full")):
        job = slurm.submit(script(slurm, "while :; do spate job stage-in --movers 1 %s spate:/data-$((n++)); done" % source))
        wait_until(lambda job=job: "checksums" in slurm.output(job) or slurm.state(job) not in ("PENDING", "CONFIGURING", "RUNNING"), "it stages", 90)
        check(slurm.state(job) == "RUNNING", "%s: %s" % (slurm.state(job), slurm.output(job)))
        slurm.call("scancel", *signals, job)
        slurm.wait_end(job)
        wait_clean(slurm, "scancel %s" % " ".join(signals))


def out_of_time(slurm, source):
    """Slurm ends the job while it stages, a minute after it began."""
    job = slurm.submit(script(slurm, "while spate job stage-in --movers 1 %s spate:/data-$((n++)); do :; done; sleep 1000" % source), "--time=1")  # a script that ended with its copy would have failed instead
    ended = slurm.wait_end(job)
    check(ended == "TIMEOUT" and "checksums" in slurm.output(job), "%s: %s" % (ended, slurm.output(job)))
    wait_clean(slurm, "a job that ran out of time")


def node_killed(slurm, source):
    """All processes of one node die at once, including its slurmd."""
    job = slurm.submit(script(slurm, "spate job stage-in %s spate:/data\nsleep 1000" % source), "--no-kill")
    wait_until(lambda: "checksums" in slurm.output(job) or slurm.state(job) not in ("PENDING", "CONFIGURING", "RUNNING"), "it is staged in", 90)
    check(slurm.state(job) == "RUNNING", slurm.output(job))
    slurm.kill_node("n3")
    for pid in parts(slurm.root):
        try:
            with open("/proc/%d/environ" % pid, "rb") as file:
                if b"SLURMD_NODENAME=n3" in file.read().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    slurm.call("scancel", job)
    # The other nodes clean up at once. The next job on the dead node removes the files that the node kept on its disk.
    wait_until(lambda: not [name for name in parts(slurm.root) if alive(name)], "no process is left", 90)
    slurm.run("n3", ["slurmd", "-D", "-N", "n3", "-f", slurm.env["SLURM_CONF"]])
    wait_until(lambda: slurm.call("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 3, "all nodes are idle again", 120)
    again = slurm.submit(script(slurm, ":"))
    check(slurm.wait_end(again) == "COMPLETED", slurm.output(again))
    wait_clean(slurm, "a node that died")


def main():
    need_slurm()
    root = tempfile.mkdtemp(prefix="spate-test-")
    os.makedirs(root + "/disk")
    os.chmod(root, 0o755)
    slurm = Slurm(root, 3, EPILOG.format(bin=BIN, disk=root + "/disk", root=root))
    try:
        make_tree(root + "/source", 60, 2)
        slurm.start()
        whole_job(slurm, root + "/source")
        cancelled_while_staging(slurm, root + "/source")
        out_of_time(slurm, root + "/source")
        node_killed(slurm, root + "/source")
    except BaseException:
        slurm.logs()
        raise
    finally:
        slurm.call("scancel", "--user=root")
        slurm.stop()
        for pid in parts(root):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
