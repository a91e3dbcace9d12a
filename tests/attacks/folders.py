#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names and folders that a stranger has prepared before root, or another user, comes: sockets, logs, homes, pid files."""
import ctypes
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import traceback

from lib import BIN, SPATE, STRANGER, Cluster, as_stranger, check, free_ports, need_root, wait_until
import wire  # beside cluster.py, which lib has found

MOUNT = os.path.join(BIN, "spate-mount")


def own(path, mode=0o755, user=STRANGER):
    """A folder of this user."""
    os.makedirs(path, exist_ok=True)
    os.chown(path, user, user)
    os.chmod(path, mode)
    return path


def in_folders_of_our_own(work):
    """Runs `work` where /run and /tmp are new and empty, as after a start of the machine."""
    child = os.fork()
    if child == 0:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            new_mounts, private, bind_mount = 0x00020000, 0x44000, 0x1000  # CLONE_NEWNS; MS_REC | MS_PRIVATE; MS_BIND
            if libc.unshare(new_mounts) != 0 or libc.mount(None, b"/", None, private, None) != 0:
                print("no name space of mounts can be made here")
                os._exit(0)
            build = os.path.dirname(BIN)
            programs = os.open(build, os.O_PATH)  # may lie below one of the places that are hidden now
            for place, mode in ((b"/run", b"mode=0755"), (b"/tmp", b"mode=1777")):
                check(libc.mount(b"none", place, b"tmpfs", 0, mode) == 0, "tmpfs")
            if not os.path.exists(build):
                os.makedirs(build)
                check(libc.mount(b"/proc/self/fd/%d" % programs, build.encode(), None, bind_mount, None) == 0, "the programs")
            work()
            os._exit(0)
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
            os._exit(1)
    check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "see above")


def bind(address, listening):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        one.bind(address)
    except OSError:
        return 0
    one.listen(4)
    listening.append(one)
    return 1


def squat(names, folders):
    """A stranger's process that listens at these abstract names, and at those in each folder that it can make or use, and
    says that it is whoever is asked for. Returns it, and at how many names in folders it listens."""
    ready, told = os.pipe()
    child = os.fork()
    if child:
        return child, int(os.read(ready, 10))
    os.setgroups([])
    os.setresgid(STRANGER, STRANGER, STRANGER)
    os.setresuid(STRANGER, STRANGER, STRANGER)
    os.umask(0)
    listening, taken = [], 0
    for name in names:
        bind("\0spate-" + name.replace("-", "/"), listening)
    for folder in folders:
        try:
            os.mkdir(folder, 0o777)
        except OSError:
            pass
        taken += sum(bind(folder + "/" + name, listening) for name in names)
    signal.alarm(120)
    asked = select.epoll()
    for one in listening:
        asked.register(one, select.EPOLLIN)
    by_number = {one.fileno(): one for one in listening}
    os.write(told, b"%d" % taken)
    kept = []
    while True:
        for number, _ in asked.poll():
            kept.append(by_number[number].accept()[0])
            kept[-1].send(b"Ksupervisor of a stranger\n")


def ask_mount(fs, word, place):
    return subprocess.run([MOUNT, word, place], env=fs.env, capture_output=True, text=True, timeout=60)


def mounts_are_asked_by_nobody_else(fs):
    """A stranger has the names that supervisors of mounts have: root asks the supervisor all the same, or nobody."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return

    def look(root_has_a_folder):
        if not root_has_a_folder:
            os.chmod("/run", 0o777)  # where anybody may rename it, it is no place for a folder of sockets
        stranger, taken = squat(["mount-0:%d" % n for n in range(20, 400)], ["/run/spate-0", "/tmp/spate-0"])
        check(taken >= 380, "the stranger is not there: %d" % taken)
        place = os.path.join(fs.root, "m%d" % root_has_a_folder)
        os.makedirs(place)
        try:
            done = subprocess.run([MOUNT, fs.dir, place], env=fs.env, capture_output=True, text=True, timeout=60)
            if done.returncode != 0:
                print("no mount can be made here: " + done.stderr)
                return
            told = ask_mount(fs, "--status", place)
            check((told.returncode == 0) == root_has_a_folder, "%d %s%s" % (told.returncode, told.stdout, told.stderr))
            check("stranger" not in told.stdout + told.stderr, "root was told: %s%s" % (told.stdout, told.stderr))
            upgraded = ask_mount(fs, "--upgrade", place)
            check("stranger" not in upgraded.stdout + upgraded.stderr, "root was told: %s%s" % (upgraded.stdout, upgraded.stderr))
            check((upgraded.returncode == 0) == root_has_a_folder, "%d %s%s" % (upgraded.returncode, upgraded.stdout, upgraded.stderr))
        finally:
            subprocess.run(["umount", place], capture_output=True)
            os.kill(stranger, signal.SIGKILL)
            os.waitpid(stranger, 0)
    for has in (True, False):
        in_folders_of_our_own(lambda has=has: look(has))


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
        told = fs.run("ping", env={"SPATE_FS": fs.dir}).stderr
        check("server 2 (%s) " % fs.url(2) in told and "nobody listens" not in told.split("server 2 ")[1].splitlines()[0],
              "the stranger is not heard at all: " + told)
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


def mount_of_stranger(place, source):
    """A stranger's FUSE mount that is called a mount of Spate, of what he likes. Its root is there, and every other name
    waits for ever. The process that serves it."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other" % (device, STRANGER, STRANGER)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), place.encode(), b"fuse.spate", 6, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    child = os.fork()
    if child:
        os.close(device)
        return child
    signal.alarm(120)
    try:
        while True:
            request = os.read(device, 1 << 20)
            op, unique = struct.unpack_from("<IQ", request, 4)
            if op == 26:  # FUSE_INIT
                reply = struct.pack("<IIIIHHIIHHI", 7, 31, 0, 0, 16, 12, 4096, 1, 0, 0, 0) + bytes(28)
            elif op == 3:  # FUSE_GETATTR
                reply = struct.pack("<QII6Q10I", 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, STRANGER, STRANGER, 0, 4096, 0)
            else:
                continue
            os.write(device, struct.pack("<IiQ", 16 + len(reply), 0, unique) + reply)
    finally:
        os._exit(0)  # it is unmounted


def a_mount_is_called_as_its_user_likes(fs):
    """A stranger's mount has the type of one of Spate, and names a configuration of his, or a place where nothing answers."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return
    theirs = own(os.path.join(fs.root, "named"))
    with open(theirs + "/spate.toml", "w") as f:
        f.write("a stranger's\n")
    place = os.path.join(fs.root, "strange")
    os.makedirs(place)
    for source in (theirs, place + "/silent"):
        try:
            server = mount_of_stranger(place, source)
        except OSError as e:
            print("no mount can be made here: %s" % e)
            return
        try:
            done = fs.run("getstripe", place, timeout=30)
            check(done.returncode != 0 and "user %d" % STRANGER in done.stderr, "root believed a stranger's mount: %s" % done.stderr)
            fs.spate("down", "-q", "--dir", fs.dir, timeout=30)
        finally:
            subprocess.run(["umount", "-l", place], capture_output=True)
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        fs.up()


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


def programs_come_from_the_folder_of_the_one_that_runs(fs):
    """Programs of a stranger stand first in the PATH and in the working directory, and spate is called by a name without a folder."""
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
        fs.up()
        os.chmod(fs.root, 0o755)
        for each in (mounts_are_asked_by_nobody_else, a_log_is_no_link, up_takes_no_folder_that_others_prepare,
                     nobody_is_ended_for_a_strangers_pid_file, nobody_is_ended_for_a_strangers_answer, who_is_ready_says_so_himself,
                     a_mount_is_called_as_its_user_likes, memory_of_a_stranger_is_not_opened,
                     programs_come_from_the_folder_of_the_one_that_runs):
            if sys.argv[1:] and each.__name__ not in sys.argv[1:]:
                continue
            each(fs)
            print(each.__name__, flush=True)


main()
