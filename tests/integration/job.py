#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate job` without Slurm: two nodes on this machine. A tree goes in and out again, a copy that was interrupted goes on, a file that has
changed on the way is copied anew, and nothing is left when the file system ends: by `down`, with its owner, or when its processes are
killed."""
import contextlib
import io
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from cluster import BIN, SPATE, alive, check, make_tree, same_tree, wait_until

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["SPATE_SOURCE"] + "/packaging/slurm")
from spate_job_supervisor import JobSupervisor  # noqa: E402
from spate_job_node import Node, Restarts  # noqa: E402

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
        """Returns whether the process is a server of this job or the process that holds it."""
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
    make_tree(source, 12, 1, folders=4)  # each file costs up to three commands
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
    """Size and time of a copy are right, but its bytes are wrong. Only a checksum shows that."""
    at = job.root + "/out/large0"
    before = os.stat(at)
    with open(at, "r+b") as file:
        file.write(b"damaged")
    os.utime(at, ns=(before.st_atime_ns, before.st_mtime_ns))
    job.does("stage-out", "spate:/data", job.root + "/out")
    same_tree(source, job.root + "/out")


def interrupted_copy(job, source):
    """The copy is killed while it runs. The second run copies only missing files."""
    make_tree(source + "/more", 4, 6, folders=2)
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
    """A caller of `up` reads a pipe to its end. The processes that `up` leaves behind must not hold the pipe open."""
    reader, writer = os.pipe()
    words = [SPATE, "job", "up", "--hosts", "one", "--launcher", "local", "--dir", job.disk, "--keep", "--id", job.name]
    subprocess.run(words, env=job.env, pass_fds=[writer], capture_output=True, timeout=120, check=True)
    os.close(writer)
    check(select.select([reader], [], [], 20)[0], "a process of the job holds a pipe of its caller")
    os.close(reader)
    job.does("down")
    job.wait_gone("down of one that was kept")


def launchers(job):
    """Spate lies in a folder with a space in its name. ssh passes its words to a shell, srun does not; a script plays
    each of them here."""
    place = job.root + "/with space"
    os.makedirs(place + "/lib/spate")
    os.symlink(BIN, place + "/bin")
    os.symlink(os.environ["SPATE_SOURCE"] + "/packaging/slurm", place + "/lib/spate/job")
    program = place + "/lib/spate/job/spate-job"
    scripts = {"ssh": 'shift\nexec sh -c "$*"\n',
               "srun": 'for word; do case $word in --nodelist=*) export SLURMD_NODENAME=${word#*=} ;; esac; done\n'
                       'while case $1 in -*) ;; *) false ;; esac; do shift; done\nexec "$@"\n'}
    for name, script in scripts.items():
        with open(os.open(job.root + "/" + name, os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + script)
    for name, host in (("ssh", " {host}"), ("srun", " --nodelist={hosts}")):
        common = ["--id", job.name, "--launcher", job.root + "/" + name + host]
        for words in (["up", "--hosts", "one", "--dir", job.disk, "--address", "127.0.0.1", *common, "--keep"],
                      ["stage-in", "/etc/hostname", "spate:/" + name, *common[:2]], ["down", *common[:2]]):
            done = subprocess.run([program, *words], env=job.env, capture_output=True, text=True, timeout=120, check=False)
            STARTED.extend(job.processes())
            check(done.returncode == 0, "by %s, %s: exit %d: %s" % (name, words[0], done.returncode, done.stderr))
        job.wait_gone("down by " + name)


class Crashing(Node):
    """A node whose servers end at once."""

    def run_server(self, number, environment=None):
        self.restarts.setdefault(number, Restarts(0))
        self.log.write(b"it does not find its store\n")
        self.log.flush()
        self.servers[number] = subprocess.Popen(["false"])


def foreign_proc(job):
    """With another container's /proc a node that runs would be taken for one that has ended, and its folder removed."""
    apart = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*apart, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        return  # not allowed here
    done = subprocess.run([*apart, SPATE, "job", "clean", "--dir", job.disk], env=job.env, capture_output=True, text=True,
                           timeout=60, check=False)
    check(done.returncode == 1 and "/proc shows the processes of another container" in done.stderr, "with a foreign /proc: %s" % done)


def crashing_server(root):
    """The server is restarted after longer and longer pauses and finally given up; `spate job status` reports that. The
    test supplies the times."""
    node = Crashing({"base": root, "job": "x", "mount": "", "servers": {"a": [2]}}, "a")
    node.folder = root + "/crashing"
    os.makedirs(node.folder)
    said, starts, now = io.StringIO(), [], 0.0
    noted = io.StringIO()
    with open(node.folder + "/log", "ab") as node.log, contextlib.redirect_stdout(said):
        node.run_server(2)
        while now < 1000:
            before = node.servers[2]
            before.wait()
            node.look_at_servers(now)
            if node.servers[2] is not before:
                starts.append(now)
            now += 0.5
    # The node notices each end half a second later, when it looks again.
    check(starts == [0, 1.5, 4, 8.5, 17, 33.5, 66], "started again at %s" % starts)
    told = said.getvalue()
    check(told.count("lost") == 1 and "server 2 has ended 8 times, and is not started again: it does not find" in told, "it says: " + told)
    with contextlib.redirect_stderr(noted):
        JobSupervisor({"launcher": "local", "hosts": ["a"]}, pathlib.Path(node.folder), []).take(told.strip())
    with open(node.folder + "/lost", encoding="utf-8") as file:
        check("on a: server 2 has ended" in file.read(), "the supervisor has not noted it")
    steady = Restarts(0)
    for end in range(1000, 9000, 1000):
        steady.end(end)
        check(steady.due(end), "one that lives for long waits before it is started again")
        steady.begin(end)


REMOVER = """
import os, random, sys, time
print("begun", flush=True)
while True:
    time.sleep(random.random() / 2000)
    try:
        os.rmdir(sys.argv[1])
    except OSError:
        pass
"""


def other_node_cleans(root):
    """A node makes its folder while another one removes the job's folder whenever it is empty."""
    node = Node({"base": root, "job": "x", "mount": "", "servers": {"a": [1]}, "client_key": "k", "server_key": "k", "toml": ""}, "a")
    with subprocess.Popen([sys.executable, "-c", REMOVER, os.path.dirname(node.folder)], stdout=subprocess.PIPE) as remover:
        remover.stdout.readline()
        try:
            for _ in range(500):
                node.prepare()
                node.log.close()
                shutil.rmtree(node.folder)
        finally:
            remover.kill()


def node_dies(job):
    job.up()
    os.kill(min(pid for pid in job.processes() if b"spate-job" in b" ".join(words_of(pid)) and b"two" in words_of(pid)), signal.SIGKILL)
    wait_until(lambda: not os.path.exists("%s/spate-job-%d-%s/two" % (job.disk, os.getuid(), job.name)), "the node's folder is gone")
    job.run("status")
    job.does("down")
    job.wait_gone("down after a node has died")


def killed_while_staging(job):
    """The whole job is killed in the middle of a copy out. The copy ends with one sentence, nothing of the job is left, and a later job goes on
    in the same place."""
    source, target = job.root + "/staged", job.root + "/taken"
    make_tree(source, 4, 4, folders=2)
    owner = subprocess.Popen(["sleep", "1000"])
    job.up("--owner", str(owner.pid))
    job.does("stage-in", source, "spate:/data")
    copy = subprocess.Popen([SPATE, "job", "stage-out", "spate:/data", target, "--movers", "1", "--id", job.name],
                            env=dict(job.env, SPATE_CLIENT_DEADLINE="3 s"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: os.path.isdir(target) and os.listdir(target) or copy.poll() is not None, "something is copied")
    owner.kill()
    owner.wait()
    said = copy.communicate(timeout=120)[1]
    if copy.returncode == 0:  # it was faster
        same_tree(source, target)
    else:
        check(copy.returncode == 1 and said.startswith("spate: job: ") and len(said.splitlines()) == 1, "the copy: exit %d: %s" % (copy.returncode, said))
    job.wait_gone("the job was killed while it copied")
    job.up()
    job.does("stage-in", source, "spate:/data")
    job.does("stage-out", "spate:/data", target)
    same_tree(source, target)
    job.does("down")
    job.wait_gone("down")


def main():
    root = tempfile.mkdtemp(prefix="spate-test-")
    job = Job(root, "job-%d" % os.getpid())
    try:
        crashing_server(root)
        shutil.rmtree(root + "/crashing")
        other_node_cleans(root)
        wrong_words(job)
        foreign_proc(job)
        job.up()
        job.refuses(1, "already", "up", "--hosts", "a", "--launcher", "local")
        job.refuses(1, "/no-such", "stage-in", "/no-such", "spate:/x")
        job.refuses(1, "/no-such", "stage-out", "spate:/no-such", root + "/x")
        copies(job)
        check(len(json.loads(job.does("status", "--json"))) == 3, "status knows three servers")
        with open(job.env["SPATE_FS"] + "/lost", "w", encoding="utf-8") as file:
            file.write("on two: server 3 has ended 8 times\n")
        check("on two: server 3" in job.run("status").stderr, "status does not tell of a lost server")
        job.does("down")
        job.wait_gone("down")
        job.does("down")
        owner = subprocess.Popen(["sleep", "1000"])
        job.up("--owner", str(owner.pid))
        owner.kill()
        owner.wait()
        job.wait_gone("the end of the owner")
        job.up()
        os.kill(job.control()["supervisor"][0], signal.SIGKILL)
        wait_until(lambda: not os.listdir(job.disk), "the nodes end without their supervisor", 60)
        job.does("down")
        job.wait_gone("down after the supervisor was killed")
        holds_no_pipe(job)
        node_dies(job)
        killed_while_staging(job)
        launchers(job)
    finally:
        job.run("down")
        for pid in [pid for pid in STARTED if alive(pid) and job.is_part(pid)]:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)


main()
