#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""#SPATE lines in Debian's Slurm, by packaging/slurm/burst_buffer.lua: the tree is there when the script begins, its results are outside after
its end, a wrong line is refused by sbatch, and a job that is cancelled leaves nothing."""
import os
import shutil
import signal
import subprocess
import tempfile

from slurm_cluster import Slurm, check, need_slurm, open_fuse_to_users, wait_until
from cluster import BIN, make_tree, same_tree
from job_in_slurm import EPILOG, left, parts, wait_clean

JOB = """#!/bin/bash
#SBATCH --nodes=2
#SPATE mount at={root}/mnt-{{host}}
#SPATE stage_in source={root}/source destination=spate:/data
#SPATE stage_in source={odd} destination=spate:/odd
#SPATE stage_out source=spate:/data destination={root}/result-{name}
export SPATE_FS=$XDG_STATE_HOME/spate/jobs/$SLURM_JOB_ID
echo from the job > {root}/mnt-n1/data/new || exit 1
cmp {root}/mnt-n1/data/new {root}/mnt-n2/data/new && diff -r {root}/source {root}/mnt-n2/data | grep -v 'Only in .*: new' && exit 1
{work}
"""


def refused(slurm, line, word):
    path = slurm.root + "/wrong.sh"
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/bash\n#SPATE %s\ntrue\n" % line)
    done = subprocess.run(["sbatch", path], env=slurm.env, **slurm.as_user(), capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode != 0 and word in done.stderr, "%s: exit %d: %s" % (line, done.returncode, done.stderr))


def main():
    need_slurm()
    open_fuse_to_users()
    root = tempfile.mkdtemp(prefix="spate-test-")
    os.makedirs(root + "/disk")
    slurm = Slurm(root, 2, EPILOG.format(bin=BIN, disk=root + "/disk", root=root), "BurstBufferType=burst_buffer/lua\nSchedulerParameters=sched_interval=2")
    shutil.copy(os.environ["SPATE_SOURCE"] + "/packaging/slurm/burst_buffer.lua", root)
    with open(root + "/burst_buffer.conf", "w", encoding="utf-8") as file:
        file.write("Directive=SPATE\nStageInTimeout=120\nStageOutTimeout=120\n")
    slurm.env.update(SPATE_JOB_LAUNCHER="local", SPATE_JOB_ADDRESS="127.0.0.1", SPATE_JOB_PROGRAM=BIN + "/spate", SPATE_JOB_DIR=root + "/disk")
    try:
        # Slurm gives root no burst buffer.
        slurm.user = "daemon"
        os.makedirs(root + "/home-state")
        for folder in (root, root + "/disk"):
            os.chmod(folder, 0o1777)
        shutil.chown(root + "/home-state", slurm.user)
        # A name that a shell would run if it were not quoted. It would be root's shell, since the controller is root.
        odd = root + "/odd'$(touch${IFS}" + root + "/ran)`touch${IFS}" + root + "/ran`;'"
        os.makedirs(odd)
        make_tree(root + "/source", 20, 1)
        slurm.start()
        refused(slurm, "stage_in source=/x", "destination")
        refused(slurm, "stage_in source=x destination=spate:/x", "absolute")
        refused(slurm, "stage_away source=/x destination=spate:/x", "stage_in")
        job = slurm.submit(JOB.format(root=root, bin=BIN, odd=odd, name="whole", work=BIN + "/spate stat spate:/odd && echo all is there"))
        ended = slurm.wait_end(job)
        check("all is there" in slurm.output(job), "%s: %s" % (ended, slurm.output(job)))
        wait_until(lambda: os.path.exists(root + "/result-whole/new"), "the results are outside: " + slurm.output(job), 90)
        wait_clean(slurm, "a job with directives")
        check(not os.path.exists(root + "/ran"), "a line of a job script was run")
        os.unlink(root + "/result-whole/new")
        same_tree(root + "/source", root + "/result-whole")
        job = slurm.submit(JOB.format(root=root, bin=BIN, odd=odd, name="cancelled", work="echo runs; sleep 1000"))  # the job is cancelled while it sleeps
        wait_until(lambda: "runs" in slurm.output(job), "it runs", 90)
        slurm.call("scancel", job)
        wait_clean(slurm, "a job that was cancelled: %s" % left(root))
    except BaseException:
        slurm.logs()
        raise
    finally:
        slurm.call("scancel", "--user=root")
        slurm.stop()
        for pid in parts(root):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)


main()
