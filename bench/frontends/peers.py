# SPDX-License-Identifier: Apache-2.0
"""The file systems that a mount is compared with: the null file system, libfuse's passthrough example, and GlusterFS.
Each is unmounted at the end."""
import os
import shutil
import socket
import subprocess
import time

from servers import log

EXAMPLE = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c"
BRICKS = 4


def mounted(path):
    with open("/proc/self/mounts") as f:
        return any(line.split()[1] == path for line in f)


def await_mount(path, program=None):
    until = time.monotonic() + 20
    while not mounted(path):
        if time.monotonic() > until or (program is not None and program.poll() is not None):
            raise SystemExit(f"{path} was not mounted")
        time.sleep(0.01)


class Program:
    """A FUSE file system that runs in its own process."""

    def __init__(self, path, command):
        os.makedirs(path, exist_ok=True)
        self.path, self.program = path, subprocess.Popen([*command, path])
        await_mount(path, self.program)
        self.pids = [self.program.pid]

    def end(self):
        subprocess.run(["fusermount3", "-u", "-z", self.path], check=False)
        self.program.terminate()
        self.program.wait()


def passthrough(folder, cache):
    """Starts libfuse's example over a folder of the same storage. It is built from the documentation of libfuse's
    package. None: it cannot be built."""
    program = os.path.join(folder, "passthrough_ll")
    if not os.path.exists(program):
        flags = subprocess.run(["pkg-config", "fuse3", "--cflags", "--libs"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
        if not os.path.exists(EXAMPLE):
            log(f"no {EXAMPLE}: rows beside it have no bar")
            return None
        subprocess.run(["cc", "-O2", "-w", EXAMPLE, *flags, "-o", program], check=True)
    below = os.path.join(folder, "below-" + cache)
    os.makedirs(below, exist_ok=True)
    return Program(os.path.join(folder, "passthrough-" + cache), [program, "-f", "-o", f"source={below},cache={cache}"])


class Gluster:
    """A volume of four bricks below `folder`, and its mount."""

    def __init__(self, folder):
        self.path, self.folder = os.path.join(folder, "gluster"), folder
        self.name = f"bench{os.getpid()}"
        self.work = os.path.join(folder, "glusterd")
        for path in (self.path, self.work):
            os.makedirs(path, exist_ok=True)
        with open(os.path.join(folder, "glusterd.vol"), "w", encoding="ascii") as f:
            f.write(f"volume management\n  type mgmt/glusterd\n  option working-directory {self.work}\n"
                    "  option transport-type socket\nend-volume\n")
        self.daemon = subprocess.Popen(["glusterd", "-N", "-f", os.path.join(folder, "glusterd.vol"), "-p", os.path.join(folder, "glusterd.pid"),
                                        "-l", os.path.join(folder, "glusterd.log")])
        host = socket.gethostname()
        bricks = [f"{host}:{folder}/brick-{i}" for i in range(BRICKS)]
        for i in range(BRICKS):
            os.makedirs(f"{folder}/brick-{i}", exist_ok=True)
        until = time.monotonic() + 20
        while subprocess.run(["gluster", "--mode=script", "volume", "list"], capture_output=True, check=False).returncode != 0:
            if time.monotonic() > until:
                raise OSError("glusterd does not answer")
            time.sleep(0.2)
        self.say("volume", "create", self.name, *bricks, "force")
        self.say("volume", "start", self.name)
        subprocess.run(["mount", "-t", "glusterfs", f"{host}:/{self.name}", self.path], check=True, capture_output=True)
        await_mount(self.path)
        self.pids = [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if self.belongs(pid)]

    def say(self, *words):
        done = subprocess.run(["gluster", "--mode=script", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(done.stderr.strip() or done.stdout.strip())

    def belongs(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
        except OSError:
            return False
        return words.split(b"\0")[0].endswith((b"glusterfsd", b"glusterfs")) and self.name.encode() in words

    def end(self):
        subprocess.run(["umount", "-l", self.path], check=False)
        for words in (("volume", "stop", self.name, "force"), ("volume", "delete", self.name)):
            subprocess.run(["gluster", "--mode=script", *words], capture_output=True, check=False)
        self.daemon.terminate()
        self.daemon.wait()


def gluster(folder):
    """Starts GlusterFS. Returns None, with the reason, if it is not installed or does not start here."""
    if shutil.which("glusterd") is None:
        log("no glusterd (package glusterfs-server): no column of GlusterFS")
        return None
    try:
        return Gluster(folder)
    except (OSError, subprocess.CalledProcessError) as error:
        log(f"GlusterFS does not start: {error}")
        return None
