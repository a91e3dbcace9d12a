#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and folders that a stranger has prepared before root or another user arrives: sockets, logs, homes, pid files."""
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys

from lib import BIN, SPATE, STRANGER, Cluster, as_stranger, check, free_ports, need_root, own, wait_until
import wire  # lies beside cluster.py, whose folder lib has put on the path

MOUNT = os.path.join(BIN, "spate-mount")


def a_log_is_no_link(fs):
    """Root mounts a file system that a user has set up. Next to it lies a folder `log` of that user."""
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
    """Without a home `up` has no folder. With another user's home it has none either, whatever lies there."""
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
    # Root ignores a stranger's note about the current file system, both if root has kept that user's HOME and if its
    # HOME is in a folder where everybody can create folders.
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
    """Root runs `spate down` on a folder of another user, whose pid files name a process of root."""
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
        for verb in ("down", "restart"):
            done = fs.run(verb, "--dir", theirs)
            check(done.returncode != 0 and "another user's" in done.stderr, "spate %s: %d %s" % (verb, done.returncode, done.stderr))
            check(victim.poll() is None, "spate %s ended a process that a stranger named" % verb)
        os.symlink(fs.root + "/made", theirs + "/run/server-1.pid.new")
        done = fs.run("up", "--dir", theirs)
        check(done.returncode != 0 and not os.path.exists(fs.root + "/made"), "spate up wrote through a link")
    finally:
        victim.kill()
        victim.wait()


def nothing_is_added_to_a_strangers_folder(fs):
    """Root runs `spate server add` for a file system of another user, who has prepared the names that it writes."""
    theirs = own(os.path.join(fs.root, "growing"))
    shutil.copytree(fs.dir, theirs, dirs_exist_ok=True, ignore=lambda folder, names: [n for n in names if n.startswith("server-") or n.endswith(".sock")])
    own(theirs)
    victim = os.path.join(fs.root, "overwritten")
    with open(victim, "w") as f:
        f.write("untouched")
    os.symlink(victim, theirs + "/spate.toml.new")
    done = fs.run("server", "add", env={"SPATE_FS": theirs})
    with open(victim) as f:
        check(f.read() == "untouched", "spate server add wrote through a link")
    check(done.returncode != 0 and "another user's" in done.stderr, "spate server add: %d %s" % (done.returncode, done.stderr))


def no_unit_is_written_for_a_stranger(fs):
    """Root runs `spate up --enable` and has kept the user's XDG_CONFIG_HOME."""
    theirs = own(os.path.join(fs.root, "configuration"))
    own(theirs + "/systemd")
    units = own(theirs + "/systemd/user")
    victim = os.path.join(fs.root, "unit")
    with open(victim, "w") as f:
        f.write("untouched")
    os.symlink(victim, units + "/spate" + fs.dir.replace("-", "\\x2d").replace("/", "-") + ".service")
    done = fs.run("up", "-q", "--enable", "--dir", fs.dir, env={"XDG_CONFIG_HOME": theirs})
    with open(victim) as f:
        check(f.read() == "untouched", "root wrote a unit through a link")
    check(done.returncode != 0 and "XDG_CONFIG_HOME" in done.stderr, "spate up --enable: %d %s" % (done.returncode, done.stderr))
    check(len(os.listdir(units)) == 1, "root made a unit in a stranger's folder: %s" % os.listdir(units))


def answer_as(server, port, pid):
    """A stranger's process listens at a server's port and answers pings: it claims to be that server and to have this
    process id."""
    ready, told = os.pipe()
    child = os.fork()
    if child:
        os.read(ready, 1)
        return child
    with open("/proc/self/comm", "wb") as f:  # a process that has changed its user may not
        f.write(b"\x1b[7mroot")
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
    """A stranger listens at the port of a stopped server. When `spate up` and `spate down` ask who is there, it names a
    process of root."""
    fs.spate("down", "-q", "--dir", fs.dir)
    victim = subprocess.Popen(["sleep", "1000"])
    stranger = answer_as(2, fs.port + 1, victim.pid)
    try:
        told = fs.run("ping", env={"SPATE_FS": fs.dir}).stderr
        check("server 2 (%s) " % fs.url(2) in told and "nobody listens" not in told.split("server 2 ")[1].splitlines()[0],
              "the stranger is not heard at all: " + told)
        done = fs.run("up", "--dir", fs.dir)
        check(done.returncode != 0 and "another program" in done.stderr, "spate up: %d %s" % (done.returncode, done.stderr))
        fs.run("down", "--dir", fs.dir)
        check(victim.poll() is None, "a process was ended that a stranger named")
        done = fs.run("up", "--io", "1", "--dir", fs.root + "/beside", "--port", str(fs.port))
        check(done.returncode != 0 and "\\x1b[7mroot" in done.stderr and "\x1b" not in done.stderr, "the stranger's name on a terminal: %r" % done.stderr)
    finally:
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)
        victim.kill()
        victim.wait()
    fs.up("--tcp-only")


def memory_of_a_stranger_is_not_opened(fs):
    """A stranger's file has the name in /dev/shm that libfabric gives to the endpoint of a server that does not run."""
    if not os.path.exists(os.path.join(BIN, "libspate-bmi-ofi.so")):
        return
    name = "spate-test-%d" % os.getpid()
    with open(fs.dir + "/spate.toml") as f:
        text = f.read().replace('urls = ["tcp', 'urls = ["ofi+shm://%s", "tcp' % name, 1)
    with open(fs.dir + "/by_name.toml", "w") as f:
        f.write(text)
    with open("/dev/shm/" + name, "wb") as f:
        f.write(os.urandom(4096) * 4000)
        os.fchown(f.fileno(), STRANGER, STRANGER)
        os.fchmod(f.fileno(), 0o666)
    try:
        told = fs.spate("ping", env={"SPATE_FS": fs.dir + "/by_name.toml"}).decode()
        check("tcp://" in told and "ofi+shm://%s failed" % name in told, "what a stranger wrote was taken for an endpoint: " + told)
    finally:
        os.unlink("/dev/shm/" + name)


def own_names(pid):
    """Returns the names of a process's sockets in the abstract namespace."""
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
    """While `spate up` waits for a server, a stranger reports that the server is ready."""
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


@contextlib.contextmanager
def locked_by_a_stranger(*places):
    """While it lasts, a stranger holds locks (flock) on those of these files and folders that it can open."""
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(STRANGER, STRANGER, STRANGER)
        os.setresuid(STRANGER, STRANGER, STRANGER)
        held = []
        for place in places:
            try:
                held.append(os.open(place, os.O_RDONLY))
                fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass
        os.write(told, b"%d" % len(held))
        signal.pause()
    try:
        check(int(os.read(ready, 10)) > 0, "the stranger holds no lock")
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def nobody_waits_for_a_strangers_lock(fs):
    """A user who may read a file or a folder can hold a lock on it. A stranger holds locks on the folder of the list of
    file systems and all that lies there, and on the machine's configuration."""
    state = fs.root + "/state/spate"
    with locked_by_a_stranger(state, *(os.path.join(state, name) for name in os.listdir(state))):
        fs.spate("up", "-q", "--dir", fs.dir, timeout=20)
    etc = own(fs.root + "/etc", user=0)
    own(etc + "/spate", user=0)
    with open(fs.dir + "/spate.toml") as whole, open(etc + "/spate/spate.toml", "w") as copy:
        copy.write(whole.read().replace("/client.key", "/missing.key"))  # without it nothing is added
    add = [SPATE, "server", "add", "127.0.0.1", "--storage", fs.root + "/added"]
    here = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', etc]
    if subprocess.run([*here, "true"], capture_output=True).returncode != 0:
        print("no name space of mounts can be made here")
        return
    for _ in range(2):  # what the first one leaves can be locked, too
        names = [etc + "/spate/" + name for name in os.listdir(etc + "/spate")]
        with locked_by_a_stranger(etc + "/spate", *names):
            done = subprocess.run([*here, *add], env=dict(fs.env, SPATE_FS="/etc/spate/spate.toml"), capture_output=True, text=True, timeout=20)
        check(done.returncode != 0 and "missing.key" in done.stderr, "spate server add: %d %s" % (done.returncode, done.stderr))


def a_strangers_process_is_no_server(fs):
    """A stranger's process has the name and the arguments of a server of root that does not run."""
    fs.spate("down", "-q", "--dir", fs.dir)
    theirs = own(os.path.join(fs.root, "named"))
    shutil.copy("/bin/sh", theirs + "/spated")
    words = ["spated", "-c", "read wait", "--config", fs.dir + "/spate.toml", "--server", "2"]
    stranger = subprocess.Popen(words, executable=theirs + "/spated", stdin=subprocess.PIPE, user=STRANGER, group=STRANGER, extra_groups=[])
    try:
        wait_until(lambda: os.readlink("/proc/%d/exe" % stranger.pid) == theirs + "/spated", "the stranger's process is there")
        fs.up("--tcp-only")
        check(len(fs.pids()) == 2, "spate up took a stranger's process for a server: %s" % fs.pids())
        fs.spate("down", "-q", "--dir", fs.dir)
        check(stranger.poll() is None, "spate down ended a stranger's process")
    finally:
        stranger.communicate(timeout=20)
    fs.up("--tcp-only")


def programs_come_from_the_folder_of_the_one_that_runs(fs):
    """A stranger's programs come first in the PATH and in the working directory, and spate is called by a name without
    a folder."""
    theirs = own(os.path.join(fs.root, "planted"))
    told = os.path.join(fs.root, "started")
    for name in ("spate", "spated", "spate-mount", "spate-export", "spate-broker", "libspate-preload.so", "libspate-bmi-ofi.so"):
        with open(os.path.join(theirs, name), "w") as f:
            f.write("#!/bin/sh\necho %s \"$@\" >> %s\n" % (name, told))
        os.chmod(f.name, 0o755)
    env = dict(fs.env, PATH=theirs + ":" + os.environ["PATH"], SPATE_FS=fs.root + "/elsewhere")

    def spate(*arguments):
        return subprocess.run(["spate", *arguments], executable=SPATE, env=env, cwd=theirs, capture_output=True, text=True, timeout=60)

    place, image, socket_path = own(fs.root + "/looked-at"), fs.root + "/image", fs.root + "/export"
    with open(image, "wb") as f:
        f.truncate(1 << 20)
    where = ["--dir", fs.root + "/elsewhere"]
    done = spate("up", "-q", "--io", "1", "--port", str(free_ports(2)), *where)
    try:
        check(done.returncode == 0, done.stderr)
        for words in (["mount", place], ["run", "--", "ls", "/spate"], ["umount", place]):
            done = spate(*words)
            check(done.returncode == 0, "%s: %s%s" % (words, done.stdout, done.stderr))
        export = subprocess.Popen(["spate", "export", "-U", socket_path, image], executable=SPATE, env=env, cwd=theirs)
        wait_until(lambda: os.path.exists(socket_path) or export.poll() is not None, "the export is served")
        check(export.poll() is None, "spate export ended")
        export.terminate()
        export.wait()
    finally:
        down = spate("down", "-q", *where)
    check(down.returncode == 0, down.stderr)
    started = open(told, encoding="utf-8").read() if os.path.exists(told) else ""
    check(not started, "started: " + started)


def main():
    need_root()
    with Cluster(io=1) as fs:
        fs.up("--tcp-only")
        os.chmod(fs.root, 0o755)
        for each in (a_log_is_no_link, up_takes_no_folder_that_others_prepare,
                     nothing_is_added_to_a_strangers_folder, no_unit_is_written_for_a_stranger,
                     nobody_is_ended_for_a_strangers_pid_file, nobody_is_ended_for_a_strangers_answer, who_is_ready_says_so_himself,
                     memory_of_a_stranger_is_not_opened, nobody_waits_for_a_strangers_lock, a_strangers_process_is_no_server,
                     programs_come_from_the_folder_of_the_one_that_runs):
            if sys.argv[1:] and each.__name__ not in sys.argv[1:]:
                continue
            each(fs)
            print(each.__name__, flush=True)


main()
