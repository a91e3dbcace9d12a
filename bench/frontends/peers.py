# SPDX-License-Identifier: Apache-2.0
"""The file systems that a mount is compared with: the null file system, libfuse's passthrough example, and GlusterFS.
Each is unmounted at the end."""
import contextlib
import os
import shutil
import signal
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


def pid_of_mount(path):
    """Returns the process that serves a mount of Spate. Its supervisor got the same folder as an argument."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"spate-mount") and words[1].startswith(b"--serve") and path.encode() in words:
            return int(pid)
    raise SystemExit(f"no process has mounted {path}")


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
    """A volume of `bricks` bricks below `folder`, with `replicas` copies of each file, and its mount."""

    def __init__(self, folder, bricks=BRICKS, replicas=1):
        self.path, self.folder = os.path.join(folder, "gluster"), folder
        self.name = f"bench{os.getpid()}"
        self.work, self.made = os.path.join(folder, "glusterd"), False
        for path in (self.path, self.work):
            os.makedirs(path, exist_ok=True)
        with open(os.path.join(folder, "glusterd.vol"), "w", encoding="ascii") as f:
            f.write(f"volume management\n  type mgmt/glusterd\n  option working-directory {self.work}\n"
                    "  option transport-type socket\nend-volume\n")
        # In a session of its own: an interrupt from the terminal must leave it, since the volume is removed through it.
        self.daemon = subprocess.Popen(["glusterd", "-N", "-f", os.path.join(folder, "glusterd.vol"), "-p", os.path.join(folder, "glusterd.pid"),
                                        "-l", os.path.join(folder, "glusterd.log")], start_new_session=True)
        try:
            self.start(bricks, replicas)
        except BaseException:
            self.end()
            raise

    def start(self, bricks, replicas):
        host = socket.gethostname()
        paths = [f"{self.folder}/brick-{i}" for i in range(bricks)]
        for path in paths:
            os.makedirs(path, exist_ok=True)
        until = time.monotonic() + 60  # it runs its programs for other sites first
        while subprocess.run(["gluster", "--mode=script", "volume", "list"], capture_output=True, check=False).returncode != 0:
            if time.monotonic() > until or self.daemon.poll() is not None:
                raise OSError("glusterd does not answer")
            time.sleep(0.2)
        self.made = True
        copies = ["replica", str(replicas)] if replicas > 1 else []
        self.say("volume", "create", self.name, *copies, *(f"{host}:{path}" for path in paths), "force")
        self.say("volume", "start", self.name)
        subprocess.run(["mount", "-t", "glusterfs", f"{host}:/{self.name}", self.path], check=True, capture_output=True)
        await_mount(self.path)
        self.pids = self.running()

    def say(self, *words):
        done = subprocess.run(["gluster", "--mode=script", *words], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise OSError(done.stderr.strip() or done.stdout.strip())

    def running(self):
        """Returns the processes of the bricks, of the mount, and of the copies' repair."""
        return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if self.belongs(pid)]

    def belongs(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
        except OSError:
            return False
        return words.split(b"\0")[0].endswith((b"glusterfsd", b"glusterfs")) and self.name.encode() in words

    def sockets(self):
        """Returns the sockets that the processes leave behind: what follows -S."""
        commands = []
        for pid in self.running():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                commands.append(f.read().split("\0"))
        return [words[words.index("-S") + 1] for words in commands if "-S" in words]

    def remove_traces(self, sockets):
        """Removes these sockets, and the files and folders that are named after the volume, its bricks or its mount."""
        for path in sockets:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        place = self.folder.strip("/").replace("/", "-") + "-"
        for at, folders, files in (one for top in ("/run/gluster", "/var/log/glusterfs") for one in os.walk(top, topdown=False)):
            for name in (name for name in files if name.startswith(place)):
                os.unlink(os.path.join(at, name))
            if self.name in folders:
                shutil.rmtree(os.path.join(at, self.name), ignore_errors=True)

    def end(self):
        sockets = self.sockets()
        if mounted(self.path):
            subprocess.run(["umount", "-l", self.path], check=False)
        for words in (("volume", "stop", self.name, "force"), ("volume", "delete", self.name)) if self.made else ():
            subprocess.run(["gluster", "--mode=script", *words], capture_output=True, check=False, start_new_session=True)
        self.daemon.terminate()
        self.daemon.wait()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.await_end(number)
        self.remove_traces(sockets)

    def await_end(self, number):
        """Waits for the processes. Sends those that stay the signal."""
        until = time.monotonic() + 5
        while left := self.running():
            if time.monotonic() > until:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                return
            time.sleep(0.1)


def gluster(folder, **how):
    """Starts GlusterFS (`how`: of Gluster). Returns None, with the reason, if it is not installed or does not start here."""
    with socket.socket(socket.AF_UNIX) as other:
        if other.connect_ex("/run/glusterd.socket") == 0:
            log("a glusterd runs on this machine already: nothing of GlusterFS")
            return None
    if shutil.which("glusterd") is None:
        log("no glusterd (scripts/install-deps --suite frontends): nothing of GlusterFS")
        return None
    try:
        return Gluster(folder, **how)
    except (OSError, subprocess.CalledProcessError) as error:
        log(f"GlusterFS does not start: {error}")
        return None
