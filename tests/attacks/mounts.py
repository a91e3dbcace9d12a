#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounts and sockets of a stranger who holds the names that root asks for: supervisors of mounts, and mounts
themselves."""
import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback

from lib import BIN, STRANGER, Cluster, check, need_root, own

MOUNT = os.path.join(BIN, "spate-mount")


def in_folders_of_our_own(work):
    """Runs `work` with a new, empty /run and /tmp, as after a start of the machine."""
    child = os.fork()
    if child == 0:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            new_mounts, private, bind_mount = 0x00020000, 0x44000, 0x1000  # CLONE_NEWNS; MS_REC | MS_PRIVATE; MS_BIND
            if libc.unshare(new_mounts) != 0 or libc.mount(None, b"/", None, private, None) != 0:
                print("no name space of mounts can be made here")
                os._exit(0)
            build = os.path.dirname(BIN)
            programs = os.open(build, os.O_PATH)  # may lie below one of the folders that are hidden now
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
    """Starts a stranger's process that listens at these abstract names, and at the same names in each folder that it
    can make or use, and that claims to be the process asked for. Returns it and the number of names in folders at which
    it listens."""
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
    """A stranger holds the names of the supervisors of mounts. Root still reaches the real supervisor, or asks nobody."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return

    def look(root_has_a_folder):
        if not root_has_a_folder:
            os.chmod("/run", 0o777)  # everybody may rename entries there now, so it is no place for a folder of sockets
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


def mount_of_stranger(place, source):
    """Mounts a stranger's FUSE file system that calls itself a mount of Spate, with any source name. Its root exists,
    and every other name blocks for ever. Returns the process that serves it."""
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
        os._exit(0)  # the mount is gone


def a_mount_is_called_as_its_user_likes(fs):
    """A stranger's mount has the type of a Spate mount and names either a configuration of the stranger or a place
    where nothing answers."""
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


def main():
    need_root()
    with Cluster(io=1) as fs:
        fs.up()
        os.chmod(fs.root, 0o755)
        for each in (mounts_are_asked_by_nobody_else, a_mount_is_called_as_its_user_likes):
            if sys.argv[1:] and each.__name__ not in sys.argv[1:]:
                continue
            each(fs)
            print(each.__name__, flush=True)


main()
