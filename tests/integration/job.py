#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate job` without Slurm: two nodes on this machine. A tree goes in and out again, a copy that was interrupted goes on, a file that has
changed on the way is copied anew, and nothing is left when the file system ends: by `down`, with its owner, or when its processes are
killed."""
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile

from cluster import SPATE, alive, check, make_tree, same_tree, wait_until

STARTED = []


class Job:
    def __init__(self, root, name):
        self.root, self.name = root, name
        self.disk = root + "/disk"
        os.makedirs(self.disk, exist_ok=True)
        self.env = dict(os.environ, HOME=root, XDG_STATE_HOME=root + "/state", SPATE_FS="%s/state/spate/jobs/%s" % (root, name))
        for variable in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
            self.env.pop(variable, None)

    def run(self, *words, spate=("job",)):
        words = [SPATE, *spate, *words, *(["--id", self.name] if spate and "--id" not in words else [])]
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=120, check=False)
        return done

    def does(self, *words, **more):
        done = self.run(*words, **more)
        check(done.returncode == 0, "%s: exit %d: %s" % (words, done.returncode, done.stderr))
        return done.stdout

    def refuses(self, code, word, *words, **more):
        done = self.run(*words, **more)
        check(done.returncode == code and word in done.stderr and len(done.stderr.splitlines()) == 1 and done.stderr.startswith("spate: "),
              "%s: exit %d, said %r, not %r" % (words, done.returncode, done.stderr, word))

    def up(self, *more):
        self.does("up", "--hosts", "one,two", "--launcher", "local", "--dir", self.disk, *(more or ("--owner", str(os.getpid()))))
        STARTED.extend(self.processes())

    def processes(self):
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_part(pid)]

    def is_part(self, pid):
        """A server of this job, or the process that holds it."""
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                words = file.read()
            with open("/proc/%d/environ" % pid, "rb") as file:
                mine = os.fsencode("HOME=" + self.root) in file.read().split(b"\0")
            return mine and (b"spate-job" in words or b"spated" in words)
        except OSError:
            return False

    def control(self):
        with open(self.env["SPATE_FS"] + "/control.json", encoding="utf-8") as file:
            return json.load(file)

    def is_gone(self):
        return not os.listdir(self.disk) and not self.processes() and not os.path.exists(self.env["SPATE_FS"])

    def wait_gone(self, why):
        wait_until(self.is_gone, "nothing is left after " + why, 60)


def copies(job):
    source = job.root + "/source"
    make_tree(source, 60, 2)
    os.makedirs(source + "/empty", mode=0o750)
    os.symlink("nowhere", source + "/link")
    with open(os.fsencode(source) + b"/not utf-8 \xff and\nlines", "w", encoding="utf-8") as file:
        file.write("x")
    job.does("stage-in", source, "spate:/data")
    job.does("cp", "-r", "spate:/data", job.root + "/seen", spate=())
    same_tree(source, job.root + "/seen")
    job.does("stage-out", "spate:/data", job.root + "/out")
    same_tree(source, job.root + "/out")
    check(os.stat(job.root + "/out/empty").st_mode & 0o777 == 0o750, "the mode of a directory")
    job.does("stage-in", "/etc/hostname", "spate:/one")
    check(job.does("cat", "spate:/one", spate=()) == open("/etc/hostname", encoding="utf-8").read(), "one file")
    damaged_copy(job, source)
    interrupted_copy(job, source)


def damaged_copy(job, source):
    """The size and the time of a copy are right, its bytes are not: only a checksum tells."""
    at = job.root + "/out/large0"
    before = os.stat(at)
    with open(at, "r+b") as file:
        file.write(b"damaged")
    os.utime(at, ns=(before.st_atime_ns, before.st_mtime_ns))
    job.does("stage-out", "spate:/data", job.root + "/out")
    same_tree(source, job.root + "/out")


def interrupted_copy(job, source):
    """Killed while it runs. The second run copies only what is not there."""
    make_tree(source + "/more", 40, 12)
    first = subprocess.Popen([SPATE, "job", "stage-in", source, "spate:/again", "--movers", "1", "--id", job.name], env=job.env, stderr=subprocess.PIPE)
    wait_until(lambda: "spate:/again/large" in job.run("find", "spate:/again", "-type", "f", spate=()).stdout or first.poll() is not None, "something is copied")
    first.kill()
    first.wait()
    first.stderr.close()
    wait_until(lambda: not [pid for pid in job.processes() if b"move" in words_of(pid)], "the movers end")
    job.does("stage-in", source, "spate:/again")
    job.does("cp", "-r", "spate:/again", job.root + "/again", spate=())
    same_tree(source, job.root + "/again")


def words_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def wrong_words(job):
    job.refuses(2, "--hosts", "up", "--launcher", "local")
    job.refuses(2, "--launcher", "up", "--hosts", "a")
    job.refuses(2, "different names", "up", "--hosts", "a,a", "--launcher", "local")
    job.refuses(2, "different names", "up", "--hosts", "../x", "--launcher", "local")
    job.refuses(2, "--id", "status", "--id", "../x")
    job.refuses(2, "spate:", "stage-in", "/etc", "/tmp")
    job.refuses(2, "SOURCE", "stage-in", "/etc")
    job.refuses(1, "no file system", "stage-in", "/etc", "spate:/etc")
    job.refuses(1, "no file system", "status")
    job.refuses(1, "no-such-launcher", "up", "--hosts", "a", "--launcher", "no-such-launcher {host}")
    job.refuses(1, "have ended", "up", "--hosts", "a", "--launcher", "false")
    job.does("down")
    check(job.is_gone(), "wrong words have left something")


def holds_no_pipe(job):
    """A caller of `up` reads a pipe to its end, which what stays behind would hold."""
    reader, writer = os.pipe()
    words = [SPATE, "job", "up", "--hosts", "one", "--launcher", "local", "--dir", job.disk, "--keep", "--id", job.name]
    subprocess.run(words, env=job.env, pass_fds=[writer], capture_output=True, timeout=120, check=True)
    os.close(writer)
    check(select.select([reader], [], [], 20)[0], "a process of the job holds a pipe of its caller")
    os.close(reader)
    job.does("down")
    job.wait_gone("down of one that was kept")


def node_dies(job):
    job.up()
    os.kill(min(pid for pid in job.processes() if b"spate-job" in b" ".join(words_of(pid)) and b"two" in words_of(pid)), signal.SIGKILL)
    wait_until(lambda: not os.path.exists("%s/spate-job-%d-%s/two" % (job.disk, os.getuid(), job.name)), "the node's folder is gone")
    job.run("status")
    job.does("down")
    job.wait_gone("down after a node has died")


def main():
    root = tempfile.mkdtemp(prefix="spate-test-")
    job = Job(root, "job-%d" % os.getpid())
    try:
        wrong_words(job)
        job.up()
        job.refuses(1, "already", "up", "--hosts", "a", "--launcher", "local")
        job.refuses(1, "/no-such", "stage-in", "/no-such", "spate:/x")
        job.refuses(1, "/no-such", "stage-out", "spate:/no-such", root + "/x")
        copies(job)
        check(len(json.loads(job.does("status", "--json"))) == 3, "status knows three servers")
        job.does("down")
        job.wait_gone("down")
        job.does("down")
        owner = subprocess.Popen(["sleep", "1000"])
        job.up("--owner", str(owner.pid))
        owner.kill()
        owner.wait()
        job.wait_gone("the end of the owner")
        job.up()
        os.kill(job.control()["keeper"][0], signal.SIGKILL)
        wait_until(lambda: not os.listdir(job.disk), "the nodes end without their keeper", 60)
        job.does("down")
        job.wait_gone("down after the keeper was killed")
        holds_no_pipe(job)
        node_dies(job)
    finally:
        job.run("down")
        for pid in [pid for pid in STARTED if alive(pid) and job.is_part(pid)]:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)


main()
