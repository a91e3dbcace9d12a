#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and folders that a stranger has prepared before root, or another user, comes: sockets, logs, homes, pid files."""
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys

from lib import BIN, SPATE, STRANGER, Cluster, as_stranger, check, free_ports, need_root, wait_until
import wire  # beside cluster.py, which lib has found

MOUNT = os.path.join(BIN, "spate-mount")


def own(path, mode=0o755, user=STRANGER):
    """A folder of this user."""
    os.makedirs(path, exist_ok=True)
    os.chown(path, user, user)
    os.chmod(path, mode)
    return path


def squat(names):
    """A stranger's process that listens at these abstract names, and says that it is whoever is asked for."""
    ready, told = os.pipe()
    child = os.fork()
    if child:
        os.read(ready, 1)
        return child
    os.setgroups([])
    os.setresgid(STRANGER, STRANGER, STRANGER)
    os.setresuid(STRANGER, STRANGER, STRANGER)
    listening = []
    for name in names:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            one.bind("\0" + name)
        except OSError:
            continue
        one.listen(4)
        listening.append(one)
    os.write(told, b"x")
    signal.alarm(120)
    import select
    while True:
        for one in select.select(listening, [], [])[0]:
            connection = one.accept()[0]
            connection.send(b"Ksupervisor of a stranger\n")
            listening_to = connection  # kept open
            del listening_to


def mounts_are_asked_by_nobody_else(fs):
    """A stranger has the names that supervisors of mounts had once: root asks the supervisor all the same."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return
    stranger = squat(["spate-mount/0:%d" % n for n in range(20, 400)])
    place = os.path.join(fs.root, "m")
    os.makedirs(place)
    try:
        done = subprocess.run([MOUNT, fs.dir, place], env=fs.env, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            print("no mount can be made here: " + done.stderr)
            return
        told = subprocess.run([MOUNT, "--status", place], env=fs.env, capture_output=True, text=True, timeout=60)
        check(told.returncode == 0 and "supervisor " in told.stdout and "stranger" not in told.stdout, "root was told: %s%s" % (told.stdout, told.stderr))
    finally:
        subprocess.run(["umount", place], capture_output=True)
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)



def a_log_is_no_link(fs):
    """Root mounts what a user has set up; beside it lies a folder `log` of that user."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return
    theirs = own(os.path.join(fs.root, "theirs"))
    shutil.copy(fs.dir + "/spate.toml", theirs)
    subprocess.run(["sed", "-i", 's|"keys/|"%s/keys/|' % fs.dir, theirs + "/spate.toml"], check=True)
    victims = os.path.join(fs.root, "victims")
    os.makedirs(victims)
    with open(victims + "/target", "w") as f:
        f.write("untouched")
    place = os.path.join(fs.root, "m2")
    os.makedirs(place)
    own(theirs + "/log")
    for make in (lambda: os.symlink(victims + "/target", theirs + "/log/mount.log"),
                 lambda: (shutil.rmtree(theirs + "/log"), os.symlink(victims, theirs + "/log"))):
        make()
        done = subprocess.run([MOUNT, theirs, place], env=fs.env, capture_output=True, text=True, timeout=60)
        subprocess.run(["umount", place], capture_output=True)
        if done.returncode != 0:
            print("no mount can be made here: " + done.stderr)
            return
        with open(victims + "/target") as f:
            check(f.read() == "untouched", "root wrote its log through a link")
        check(os.listdir(victims) == ["target"], "root made a log behind a link: %s" % os.listdir(victims))


def up_takes_no_folder_that_others_prepare(fs):
    """Without a home there is no folder; with another user's home neither, whatever lies there."""
    def up(*args, **env):
        all_ = {k: v for k, v in fs.env.items() if k not in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
        return subprocess.run([SPATE, *args], env=dict(all_, **env), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    before = os.path.exists("/tmp/.local")
    port = free_ports(2)
    for env in ({}, {"HOME": ""}, {"HOME": own(os.path.join(fs.root, "home"))}):
        done = up("up", "--io", "1", "--port", str(port), **env)
        if done.returncode == 0:
            up("down", "--dir", "/tmp/.local/share/spate" if not env.get("HOME") else env["HOME"] + "/.local/share/spate")
        check(done.returncode != 0 and "--dir" in done.stderr, "spate up with %s: %d %s" % (env, done.returncode, done.stderr))
    check(os.path.exists("/tmp/.local") == before, "a folder below /tmp was used")
    # What a stranger notes as the current file system is nothing for root that has kept that user's HOME, or has one where
    # everybody makes folders.
    public = os.path.join(fs.root, "public")
    own(public, 0o1777, 0)
    for home in (fs.root + "/home", public):
        for folder in ("/.local", "/.local/state", "/.local/state/spate"):
            own(home + folder)
        with open(home + "/.local/state/spate/current", "w") as f:
            f.write(fs.dir + "/spate.toml\n")
        for env in ({"HOME": home}, {"XDG_STATE_HOME": home + "/.local/state"}):
            done = up("ls", "spate:/", **env)
            check(done.returncode != 0, "root took the file system that a stranger names: %s" % env)
    done = up("up", "--io", "1", "--port", str(port), HOME=public)
    if done.returncode == 0:
        up("down", "--dir", public + "/.local/share/spate")
    check(done.returncode != 0 and "--dir" in done.stderr, "spate up below a stranger's folder: %d %s" % (done.returncode, done.stderr))


def nobody_is_ended_for_a_strangers_pid_file(fs):
    """`spate down` by root on a folder of somebody else, whose pid files name a process of root."""
    theirs = own(os.path.join(fs.root, "prepared"))
    shutil.copy(fs.dir + "/spate.toml", theirs)
    own(theirs + "/run")
    own(theirs + "/log")
    victim = subprocess.Popen(["sleep", "1000"])
    try:
        with open("/proc/%d/stat" % victim.pid) as f:
            began = f.read().rsplit(")", 1)[1].split()[19]
        with open(theirs + "/run/server-1.pid", "w") as f:
            f.write("%d %s\n" % (victim.pid, began))
        done = fs.run("down", "--dir", theirs)
        check(done.returncode != 0 and "another user's" in done.stderr, "spate down: %d %s" % (done.returncode, done.stderr))
        check(victim.poll() is None, "a process was ended that a stranger named")
        os.symlink(fs.root + "/made", theirs + "/run/server-1.pid.new")
        done = fs.run("up", "--dir", theirs)
        check(done.returncode != 0 and not os.path.exists(fs.root + "/made"), "spate up wrote through a link")
    finally:
        victim.kill()
        victim.wait()


def answer_as(server, port, pid):
    """A stranger's process that listens at a server's port and answers pings: it is that server, and has this process id."""
    ready, told = os.pipe()
    child = os.fork()
    if child:
        os.read(ready, 1)
        return child
    os.setgroups([])
    os.setresgid(STRANGER, STRANGER, STRANGER)
    os.setresuid(STRANGER, STRANGER, STRANGER)
    signal.alarm(60)
    listener = socket.create_server(("127.0.0.1", port))
    os.write(told, b"x")
    reply = struct.pack("<HHIQQ", 2, wire.OK, 0, 1, 0) + wire.text(b"") + struct.pack("<IIQQ", server, 0, pid, 1) + wire.text(b"")
    while True:
        connection = listener.accept()[0]
        if len(connection.recv(64, socket.MSG_WAITALL)) < 64:
            continue
        limits = struct.pack("<QQII", 1 << 20, 1 << 18, 1024, 0)
        connection.sendall(b"spateTCP" + struct.pack("<HHIQ", 0, 1, 0, 7) + limits)
        while len(head := connection.recv(32, socket.MSG_WAITALL)) == 32:
            _, kind, _, _, _, tag, length, _ = struct.unpack("<BBBBIQQQ", head)
            if kind == wire.UNEXPECTED:
                connection.recv(length, socket.MSG_WAITALL)
                connection.sendall(wire.frame(wire.EAGER, len(reply), tag) + reply)


def nobody_is_ended_for_a_strangers_answer(fs):
    """A stranger listens where a stopped server was, and names a process of root when `spate up` and `spate down` ask who is there."""
    fs.spate("down", "-q", "--dir", fs.dir)
    victim = subprocess.Popen(["sleep", "1000"])
    stranger = answer_as(2, fs.port + 1, victim.pid)
    try:
        told = fs.run("ping", env={"SPATE_FS": fs.dir}).stdout.decode()
        check("server 2" in told, "the stranger is not heard at all: " + told)
        done = fs.run("up", "--dir", fs.dir)
        check(done.returncode != 0 and "another program" in done.stderr, "spate up: %d %s" % (done.returncode, done.stderr))
        fs.run("down", "--dir", fs.dir)
        check(victim.poll() is None, "a process was ended that a stranger named")
    finally:
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)
        victim.kill()
        victim.wait()
    fs.up()


def own_names(pid):
    """The abstract names of a process's sockets."""
    own = set()
    for number in os.listdir("/proc/%d/fd" % pid):
        try:
            own.add(os.readlink("/proc/%d/fd/%s" % (pid, number)))
        except OSError:
            pass
    with open("/proc/net/unix") as f:
        rows = [line.split() for line in f if " @" in line]
    return [row[7][1:] for row in rows if "socket:[%s]" % row[6] in own]


def who_is_ready_says_so_himself(fs):
    """While `spate up` waits for a server, a stranger tells it that the server is ready."""
    programs = os.path.join(fs.root, "programs")
    os.makedirs(programs)
    shutil.copy(SPATE, programs)
    told = os.path.join(fs.root, "told")
    with open(programs + "/spated", "w") as f:
        f.write("#!/bin/sh\nwhile [ ! -e %s ]; do sleep 0.05; done\nsleep 0.5\nexit 1\n" % told)
    os.chmod(programs + "/spated", 0o755)
    up = subprocess.Popen([programs + "/spate", "up", "--io", "1", "--dir", fs.root + "/new", "--port", str(free_ports(2))], env=fs.env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: len(own_names(up.pid)) == 2, "spate up waits for two servers")
    names = own_names(up.pid)

    def tell():
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for name in names:
            sender.sendto(b"READY=1", "\0" + name)
    check(as_stranger(tell) == 0, "the stranger is not heard at all")
    with open(told, "w"):
        pass
    said = up.communicate(timeout=60)
    check(up.returncode != 0, "a stranger's word was taken: %s%s" % said)


def main():
    need_root()
    with Cluster(io=1) as fs:
        fs.up()
        os.chmod(fs.root, 0o755)
        for each in (mounts_are_asked_by_nobody_else, a_log_is_no_link, up_takes_no_folder_that_others_prepare,
                     nobody_is_ended_for_a_strangers_pid_file, nobody_is_ended_for_a_strangers_answer, who_is_ready_says_so_himself):
            if sys.argv[1:] and each.__name__ not in sys.argv[1:]:
                continue
            each(fs)
            print(each.__name__, flush=True)


main()
