#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes of `spate job` are killed at the worst moments, and nothing of the job is left: no command that goes on copying, and no
folder. Small programs play the commands, so the order of events is fixed."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from cluster import alive, check, wait_until

sys.dont_write_bytecode = True
sys.path.insert(0, os.environ["SPATE_SOURCE"] + "/packaging/slurm")
import spate_job_node  # noqa: E402

# Plays `spate`: it never ends by itself.
COMMAND = "#!/bin/sh\necho $$ >> %s/commands\nexec sleep 1000\n"
# Plays setpriv on a slow machine: it runs only when the process that started it is gone.
SLOW_SETPRIV = "#!/bin/sh\nparent=$PPID\necho $$ > %s/slow\nwhile kill -0 $parent 2> /dev/null; do sleep 0.01; done\nexec %s \"$@\"\n"
# Runs a command as the parts of `spate job` do.
CALLS = {"run_spate": "import spate_job_common; spate_job_common.run_spate('/nonexistent', 'cp', 'a', 'spate:/b')",
         "mover": "import spate_job_stage; spate_job_stage.Mover(dict(base='/nonexistent', job='x', lanes=[]), 'one').run('cp', 'a', 'spate:/b')"}


def write_program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o755), "w", encoding="ascii") as file:
        file.write(text)


def pids_in(path):
    """Returns the processes that have written their numbers into this file."""
    try:
        with open(path, encoding="ascii") as file:
            return [int(line) for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []


def words_of(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


@contextlib.contextmanager
def begin(root, call, path):
    """A process that runs a command, and is killed at the end of the block. `path`: the folders of its programs."""
    words = [sys.executable, "-B", "-c", "import sys; sys.path.insert(0, sys.argv[1]); " + CALLS[call], root + "/lib/spate/job"]
    caller = subprocess.Popen(words, env=dict(os.environ, PATH=path))
    try:
        yield caller
    finally:
        caller.kill()
        caller.wait()


def killed_caller(root, call):
    """A process that runs a command is killed. The command would go on copying into a file system that a later command
    reads, or wait for servers that `down` has ended."""
    with begin(root, call, os.environ["PATH"]) as caller:
        wait_until(lambda: pids_in(root + "/commands") or caller.poll() is not None, "the command runs")
    wait_until(lambda: not any(map(alive, pids_in(root + "/commands"))), "the command of %s ends with its caller" % call)
    os.remove(root + "/commands")


def killed_before_it_began(root, call):
    """The caller is killed before the kernel knows that the command must end with it."""
    with begin(root, call, root + "/slow programs:" + os.environ["PATH"]) as caller:
        wait_until(lambda: pids_in(root + "/slow") or caller.poll() is not None, "the command is about to begin")
    begun = pids_in(root + "/slow")
    check(len(begun) == 1, "no command of %s was about to begin" % call)
    wait_until(lambda: not alive(begun[0]), "the command of %s does not begin without its caller" % call)
    check(not pids_in(root + "/commands"), "the command of %s has begun without its caller" % call)
    os.remove(root + "/slow")


def node_folder(root):
    """Makes a node's folder as a job leaves it: with a note, keys, and what the servers store."""
    folder = root + "/disk/job/one"
    os.makedirs(folder + "/data-2/objects")
    for name in ("spate.toml", "log", "data-2/objects/1", "data-2/objects/2"):
        with open(folder + "/" + name, "w", encoding="ascii") as file:
            file.write("x")
    node = spate_job_node.Node({"base": root + "/disk", "job": "x", "mount": "", "servers": {}}, "one")
    node.folder = folder
    child = os.fork()
    if child == 0:
        node.note(False)
        os._exit(0)
    os.waitpid(child, 0)
    check(os.path.exists(folder + "/owner.json"), "the node has written no note")
    return folder


def die_at_step(step):
    """Lets this process end before the step-th change of a folder."""
    left = [step]

    def counted(call):
        def run(*args, **more):
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            return call(*args, **more)
        return run
    os.unlink, os.remove, os.rmdir, os.rename = map(counted, (os.unlink, os.remove, os.rmdir, os.rename))


def interrupted_removal(root):
    """A node is killed at each step of the removal of its folder. Its guard removes the rest. An empty folder may stay: it
    cannot be told from that of a node that begins."""
    for step in range(1000):
        folder = node_folder(root)
        child = os.fork()
        if child == 0:
            die_at_step(step)
            os._exit(0 if spate_job_node.clear(folder) else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        check(code in (0, 9), "the removal ended with %d" % code)
        gone = not os.path.exists(folder) or spate_job_node.clear(folder)
        left = os.listdir(folder) if os.path.exists(folder) else []
        check(gone and not os.path.exists(folder) or not left, "killed at step %d, the removal left %s" % (step, left))
        shutil.rmtree(root + "/disk", ignore_errors=True)
        if code == 0:
            check(step > 5, "the removal has only %d steps" % step)
            return
    raise AssertionError("the removal does not end")


def copies_end(root):
    """A copy that uses a node's configuration ends before its folder is removed. One of another job goes on."""
    folder = node_folder(root)
    os.makedirs(root + "/sleeper")
    program = shutil.copy(shutil.which("sleep"), root + "/sleeper/spate")
    with contextlib.ExitStack() as programs:
        copy, other = [programs.enter_context(subprocess.Popen([program, "1000"], env=dict(os.environ, SPATE_FS=fs))) for fs in (folder, folder + "-other")]
        programs.callback(copy.kill)
        programs.callback(other.kill)
        wait_until(lambda: all(program.encode() in words_of(one.pid) for one in (copy, other)), "the copies run")
        check(spate_job_node.clear(folder) and not os.path.exists(folder), "the folder is left")
        check(copy.poll() is not None or not alive(copy.pid), "the copy goes on")
        check(alive(other.pid), "the copy of another job has ended")


def main():
    root = tempfile.mkdtemp(prefix="spate-test-")
    os.makedirs(root + "/lib/spate")
    os.symlink(os.environ["SPATE_SOURCE"] + "/packaging/slurm", root + "/lib/spate/job")
    write_program(root + "/bin/spate", COMMAND % root)
    write_program(root + "/slow programs/setpriv", SLOW_SETPRIV % (root, shutil.which("setpriv")))
    try:
        interrupted_removal(root)
        copies_end(root)
        for call in CALLS:
            killed_caller(root, call)
            killed_before_it_began(root, call)
    finally:
        for pid in [pid for name in ("commands", "slow") for pid in pids_in(root + "/" + name) if alive(pid)]:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(root, ignore_errors=True)


main()
