#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate job` on a machine with other users. Files that a stranger has prepared in the nodes' folder, or in a home that
does not belong to root, are neither read, run nor removed. Nobody else can report that a server is ready. A cleaner has
only the rights of the user whose folder it cleans."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from lib import SPATE, STRANGER, as_stranger, check, need_root, skip

JOB = os.path.join(os.path.dirname(SPATE), "..", "lib", "spate", "job")
GROUP = 65507  # no account is a member


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def job(root, *words, home=None, timeout=120):
    env = dict(os.environ, HOME=home or root + "/home")
    for name in ("XDG_STATE_HOME", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SPATE_FS"):
        env.pop(name, None)
    return subprocess.run([SPATE, "job", *words], env=env, capture_output=True, text=True, timeout=timeout, check=False)


def up(root, disk, name, **more):
    return job(root, "up", "--hosts", "one", "--launcher", "local", "--dir", disk, "--id", name, "--owner", str(os.getpid()), **more)


def refused(done, word):
    check(done.returncode == 1 and word in done.stderr and len(done.stderr.splitlines()) == 1, "exit %d, not %r: %s%s" % (done.returncode, word, done.stdout, done.stderr))


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def prepared_node(root, disk):
    """A stranger makes the folder of root's next job, with a note that names an empty folder of root as the job's
    mount."""
    victim = root + "/victim"
    os.mkdir(victim)
    folder = "%s/spate-job-0-a" % disk
    note = json.dumps({"process": [1 << 22, 1], "boot": boot_id(), "mount": victim, "made": True})

    def prepare():
        os.makedirs(folder + "/one")
        write(folder + "/one/owner.json", note)

    check(as_stranger(prepare) == 0, "the stranger cannot prepare anything")
    refused(up(root, disk, "a"), "belongs to somebody else")
    check(os.path.isdir(victim), "a stranger's note had root's folder removed")
    check(os.path.exists(folder + "/one/owner.json"), "root has removed a tree that a stranger chose")
    shutil.rmtree(folder)
    check(as_stranger(lambda: os.symlink(root, folder)) == 0, "no link")
    check(up(root, disk, "a").returncode == 1, "it follows a link of a stranger's")
    os.unlink(folder)


def exchanged_base(root):
    """Makes a folder where other users may rename root's files."""
    disk = root + "/open"
    os.mkdir(disk)
    os.chmod(disk, 0o777)
    refused(up(root, disk, "b"), "others can rename")
    check(not os.listdir(disk), "it has begun there")
    for owner, mode in ((STRANGER, 0o755), (0, 0o777)):
        os.chown(disk, owner, owner)
        os.chmod(disk, mode)
        mine = disk + "/spate-job-0-b/one"
        os.makedirs(mine)
        check(job(root, "clean", "--dir", disk).returncode == 0 and os.path.isdir(mine), "root cleans where a stranger can exchange folders")
        shutil.rmtree(os.path.dirname(mine))


def exchanged_above(root):
    """Makes a folder of root inside a stranger's folder, so that the stranger may rename it; and one that is the target
    of a stranger's link, which the stranger may change."""
    theirs, own = root + "/theirs", root + "/roots"
    for folder in (theirs, theirs + "/disk", own):
        os.mkdir(folder)
    os.chown(theirs, STRANGER, STRANGER)
    check(as_stranger(lambda: os.symlink(own, root + "/disk/link")) == 0, "no link")
    for disk in (theirs + "/disk", theirs + "/new", root + "/disk/link", root + "/disk/link/deeper"):
        refused(up(root, disk, "e"), "others can rename")
        check(not os.path.exists(disk + "/spate-job-0-e"), "it has begun in " + disk)
        mine = disk + "/spate-job-0-e/one"
        os.makedirs(mine)
        check(job(root, "clean", "--dir", disk).returncode == 0 and os.path.isdir(mine), "root cleans where a stranger can exchange folders: " + disk)
        shutil.rmtree(os.path.dirname(mine))


def held_cleaner(root):
    """The cleaner of root ends in time, whatever a stranger has prepared, and even if the stranger stops the process
    that cleans with the stranger's rights."""
    disk = root + "/held"
    os.mkdir(disk)
    os.chmod(disk, 0o1777)

    def prepare():
        for number in range(20):
            folder = "%s/spate-job-%d-h%d/one" % (disk, STRANGER, number)
            os.makedirs(folder)
            os.mkfifo(folder + "/owner.json")  # nobody ever writes into it

    def is_cleaner(pid):
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            return os.fsencode(disk) in file.read() and os.stat("/proc/%d" % pid).st_uid == STRANGER

    def stop_cleaners():
        os.setresuid(STRANGER, STRANGER, STRANGER)
        while True:
            for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
                try:
                    if is_cleaner(pid):
                        os.kill(pid, signal.SIGSTOP)
                except OSError:
                    pass  # the process has just ended
            time.sleep(0.01)

    check(as_stranger(prepare) == 0, "nothing prepared")
    stopper = os.fork()
    if stopper == 0:
        try:
            stop_cleaners()
        finally:
            os._exit(1)
    code = "import sys; sys.path.insert(0, %r); import spate_job_node as n; n.CLEAN_SECONDS = 1; print(n.clean(%r, None, None))" % (JOB, disk)
    try:
        done = subprocess.run(["/usr/bin/python3", "-c", code], capture_output=True, text=True, timeout=100, check=False)
        check(done.stdout == "False\n", "exit %d: %s%s" % (done.returncode, done.stdout, done.stderr))
    finally:
        os.kill(stopper, signal.SIGKILL)
        os.waitpid(stopper, 0)


def redirected_results(root):
    """A user who may write in the results' folder cannot use a link to redirect the results."""
    shared, victim = root + "/shared", root + "/quiet"
    for folder, mode in ((shared, 0o777), (victim, 0o755)):
        os.mkdir(folder)
        os.chmod(folder, mode)
    done = up(root, root + "/disk", "s")
    check(done.returncode == 0, done.stderr)
    try:
        fs = done.stdout.rpartition("SPATE_FS=")[2].strip()
        for words in (("mkdir", "-p", "spate:/data/sub/deep"), ("put", "spate:/data/sub/deep/f"), ("put", "spate:/data/sub/g")):
            subprocess.run([SPATE, *words], env=dict(os.environ, SPATE_FS=fs), input=b"result", timeout=60, check=True)
        for name, folders in (("sub", ()), ("sub/deep", ("sub",))):
            for folder in folders:
                os.mkdir(os.path.join(shared, folder))
                os.chmod(os.path.join(shared, folder), 0o777)
            check(as_stranger(lambda name=name: os.symlink(victim, os.path.join(shared, name))) == 0, "no link")
            done = job(root, "stage-out", "spate:/data", shared, "--id", "s")
            check(not os.listdir(victim), "results lie where a stranger's link leads: %s" % os.listdir(victim))
            refused(done, "in the way")
            os.unlink(os.path.join(shared, name))
        done = job(root, "stage-out", "spate:/data", shared, "--id", "s")
        check(done.returncode == 0 and "2 files" in done.stdout, "stage-out: %s%s" % (done.stdout, done.stderr))
        for name in ("sub/deep/f", "sub/g"):
            with open(os.path.join(shared, name), "rb") as file:
                check(file.read() == b"result", name)
    finally:
        job(root, "down", "--id", "s")


def foreign_home(root):
    """Root runs with another user's home, as sudo may leave it. The record there names a process to end and a command
    to run."""
    home = root + "/stranger"
    os.mkdir(home)
    os.chown(home, STRANGER, STRANGER)
    state = home + "/.local/state/spate/jobs/c"
    ran = root + "/ran"
    evil = home + "/evil"
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        with open("/proc/%d/stat" % bystander.pid, encoding="ascii") as file:
            started = int(file.read().rsplit(")", 1)[1].split()[19])

        def prepare():
            os.makedirs(state)
            write(evil, "#!/bin/sh\ntouch '%s'\n" % ran)
            os.chmod(evil, 0o755)

        check(as_stranger(prepare) == 0, "nothing prepared")
        for supervisor in ([bystander.pid, started], [1 << 22, 1]):
            told = json.dumps({"job": "c", "hosts": ["one"], "launcher": evil + " {host}", "base": root, "supervisor": supervisor})
            check(as_stranger(lambda told=told: write(state + "/control.json", told)) == 0, "no note")
            for words in (("down",), ("status",), ("stage-in", "/etc/hostname", "spate:/x")):
                refused(job(root, *words, "--id", "c", home=home), "another user's")
                check(not os.path.exists(ran), "%s: root runs a stranger's command" % words[0])
                check(bystander.poll() is None, "%s: root ends a process that a stranger chose" % words[0])
        refused(up(root, root + "/disk", "c", home=home), "another user's")
    finally:
        bystander.kill()
        bystander.wait()


def false_ready():
    """Every user can find the socket's name in /proc/net/unix."""
    sys.path.insert(0, JOB)
    import spate_job_node  # pylint: disable=import-error,import-outside-toplevel
    listener, name = spate_job_node.ready_socket()

    def say():
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.sendto(b"READY=1", "\0" + name[1:])

    check(as_stranger(say) == 0, "the stranger cannot send")
    check(not spate_job_node.says_ready(listener), "a stranger says that a server is ready")
    say()
    check(spate_job_node.says_ready(listener), "the server itself is not believed")


def rights_of_the_cleaner(root):
    """A folder whose group comes from the folder above gives the cleaner no rights of that group."""
    disk, groups = root + "/setgid", root + "/groups"
    for folder, mode in ((disk, 0o3777), (groups, 0o770), (groups + "/place", 0o755)):
        os.mkdir(folder)
        os.chown(folder, 0, GROUP)
        os.chmod(folder, mode)
    note = json.dumps({"process": [1 << 22, 1], "boot": boot_id(), "mount": groups + "/place", "made": True})
    folder = "%s/spate-job-%d-d/one" % (disk, STRANGER)

    def prepare():
        os.makedirs(folder)
        write(folder + "/owner.json", note)

    check(as_stranger(prepare) == 0 and os.stat(folder).st_gid == GROUP, "the folder has not the group of the one above")
    done = job(root, "clean", "--dir", disk)
    check(done.returncode == 0, "clean: " + done.stderr)
    check(not os.path.exists(folder), "it was not cleaned")
    check(os.path.isdir(groups + "/place"), "the cleaner had the rights of a group that its user is not in")


def main():
    need_root()
    if not os.path.exists(JOB + "/spate-job"):
        skip("this build has no spate job")
    root = tempfile.mkdtemp(prefix="spate-job-attack-")
    try:
        os.chmod(root, 0o755)
        for folder, mode in ((root + "/home", 0o700), (root + "/disk", 0o1777)):
            os.mkdir(folder)
            os.chmod(folder, mode)
        false_ready()
        prepared_node(root, root + "/disk")
        exchanged_base(root)
        exchanged_above(root)
        held_cleaner(root)
        redirected_results(root)
        foreign_home(root)
        rights_of_the_cleaner(root)
    finally:
        shutil.rmtree(root)


main()
