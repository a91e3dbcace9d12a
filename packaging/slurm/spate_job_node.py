# SPDX-License-Identifier: Apache-2.0
"""One node of a job's file system: runs its servers and its mount, and cleans up after every kind of end."""
import contextlib
import json
import os
import pwd
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time

from spate_job_common import JobError, alive, identity, keeps_folders, node_folder, own_folder, own_folder_in, own_name, read_order, \
    reason, run_spate, say, spate_program, tied, wait_for, write_file

READY_SECONDS = 60
NOGROUP = 65534
CLEAN_SECONDS = 30  # time limit for cleaning up after one user
FRESH_SECONDS = 60  # a folder without a note that is younger than this may belong to a node that is just starting
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Restarts:
    """Decides when to restart a server that has ended: at once if it had run for a while, otherwise after longer and
    longer pauses, and finally not at all."""
    PAUSES = (0, 1, 2, 4, 8, 16, 32)  # seconds
    STEADY_SECONDS = 120  # a server that ran this long starts again with the shortest pause

    def __init__(self, now):
        self.began, self.ended, self.count, self.told = now, None, 0, False

    def end(self, now):
        """Records that the server has ended. Later calls change nothing until begin()."""
        if self.ended is None:
            self.count = 1 if now - self.began >= self.STEADY_SECONDS else self.count + 1
            self.ended = now

    def hopeless(self):
        return self.count > len(self.PAUSES)

    def due(self, now):
        return self.ended is not None and not self.hopeless() and now >= self.ended + self.PAUSES[self.count - 1]

    def begin(self, now):
        self.began, self.ended = now, None


def boot_id():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def has_mount(place):
    """Returns whether Spate is mounted there."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        rows = [line.split() for line in file]
    plain = [(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), row[4]), row[row.index("-") + 1]) for row in rows]
    return (place, "fuse.spate") in plain


def end_signal(*_):
    raise SystemExit(0)


class Node:
    """The servers and the mount of one node, from prepare() to end(). Used by one thread. `end` kills the processes,
    since the data is not kept."""

    def __init__(self, order, host):
        self.order, self.host = order, host
        self.folder = node_folder(order["base"], order["job"], host)
        self.mount_point = order["mount"].replace("{host}", host)
        self.servers = {}
        self.restarts = {}
        self.log = None
        self.owned = False  # whether this process may remove the folder

    def prepare(self):
        # Check the owner before reading anything there: another user may have prepared the folder.
        own_folder_in(self.order["base"], os.path.dirname(self.folder))
        clean(self.order["base"], None, None)
        if os.path.lexists(self.folder) and not clear(self.folder):
            raise JobError("%s belongs to a job that runs" % self.folder)
        self.own_folders()
        self.note(False)
        self.owned = True
        write_file(self.folder + "/client.key", self.order["client_key"] + "\n")
        write_file(self.folder + "/server.key", self.order["server_key"] + "\n")
        write_file(self.folder + "/spate.toml", self.order["toml"].replace("@FOLDER@", self.folder))
        self.log = open(self.folder + "/log", "ab")  # pylint: disable=consider-using-with

    def own_folders(self):
        """Creates the job's folder and, in it, this node's. Once this returns, the job's folder is not empty, so no other
        node removes it."""
        for folder in (self.folder, os.path.dirname(self.folder)):
            own_folder(folder)

    def note(self, made):
        """Writes a note for the process that cleans up after this one. `made`: this process also created the mount's
        directory."""
        write_file(self.folder + "/owner.json", json.dumps(
            {"process": identity(os.getpid()), "boot": boot_id(), "mount": self.mount_point, "made": made}))

    def start_servers(self):
        ready = {}
        for number in self.order["servers"][self.host]:
            words = self.server_words(number)
            made = subprocess.run([*words, "--format"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, check=False)
            if made.returncode != 0:
                raise JobError("server %d cannot make its store: %s" % (number, self.last_words()))
            ready[number], name = ready_socket()
            self.run_server(number, dict(os.environ, NOTIFY_SOCKET=name))
        for number, listener in ready.items():
            self.wait_ready(number, listener)
            listener.close()

    def server_words(self, number):
        return [spate_program("spated"), "--config", self.folder + "/spate.toml", "--server", str(number)]

    def run_server(self, number, environment=None):
        self.restarts.setdefault(number, Restarts(time.monotonic()))
        self.servers[number] = subprocess.Popen(tied(self.server_words(number)), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                                env=environment)

    def wait_ready(self, number, listener):
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            if self.servers[number].poll() is not None:
                raise JobError("server %d has ended: %s" % (number, self.last_words()))
            if select.select([listener], [], [], 0.2)[0] and says_ready(listener):
                return
        raise JobError("server %d is not ready: %s" % (number, self.last_words()))

    def last_words(self):
        """Returns the last lines of the servers' log."""
        with open(self.folder + "/log", "rb") as file:
            lines = [line for line in file.read()[-4000:].splitlines() if not line.startswith(b"spate-job: ")]
        return b" ".join(lines[-2:]).decode(errors="replace")

    def mount(self):
        if not self.mount_point:
            return
        made = not os.path.isdir(self.mount_point)
        options = ["-o", self.order["mount_options"]] if self.order["mount_options"] else []
        if made:
            os.makedirs(self.mount_point)
            self.note(True)
        done = run_spate(self.folder, "mount", *options, self.mount_point)
        if done.returncode != 0:
            raise JobError(reason(done))

    def keep(self):
        """Runs until standard input ends. Restarts a server that ended by itself, since its store is still there."""
        while True:
            if select.select([0], [], [], 1)[0]:
                word = os.read(0, 4096)
                if not word:
                    return
                if b"mount" in word:
                    self.mount()
                    say(self.host, "up")
            self.look_at_servers(time.monotonic())

    def look_at_servers(self, now):
        for number, server in list(self.servers.items()):
            if server.poll() is None:
                continue
            again = self.restarts[number]
            again.end(now)
            if again.hopeless() and not again.told:
                again.told = True
                say(self.host, "lost", "server %d has ended %d times, and is not started again: %s" % (number, again.count, self.last_words()))
            elif again.due(now):
                self.log.write(b"spate-job: server %d has ended with %d and is started again\n" % (number, server.returncode))
                self.log.flush()
                self.run_server(number)
                again.begin(now)


def ready_socket():
    """Creates a socket on which a server reports that it is ready. Returns the socket and its name. The kernel chooses
    the name, so that no other process can take it first."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    listener.bind("")
    return listener, "@" + listener.getsockname()[1:].decode()


def says_ready(listener):
    """Returns whether the next datagram reports readiness. Any process can send one, so it counts only if the sender
    belongs to this user."""
    data, notes, _, _ = listener.recvmsg(4096, socket.CMSG_SPACE(12))
    senders = [struct.unpack("3i", note[:12])[1] for level, kind, note in notes if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)]
    return b"READY=1" in data and senders == [os.geteuid()]


def clear(folder):
    """Ends the processes of a node's folder, unmounts, and removes the folder. Returns False if the folder's owner is
    another process that still runs."""
    try:
        with open(folder + "/owner.json", encoding="utf-8") as file:
            told = json.load(file)
        same_boot, owner, place = told["boot"] == boot_id(), told["process"], str(told["mount"])
    except (OSError, ValueError, KeyError, TypeError):
        told, same_boot, owner, place = {}, True, [0, None], ""
        if is_fresh(folder):
            return False
    if same_boot and owner[0] != os.getpid() and alive(owner):
        return False
    if same_boot:
        unmount(place)
        for pid in processes_of(folder):
            kill(pid)
        wait_for(lambda: not processes_of(folder), 5)
        unmount(place)
    if place and told.get("made"):
        remove_empty(place)
    remove_node_folder(folder)
    remove_empty(os.path.dirname(folder))  # unless other nodes use the same disk
    return True


def remove_node_folder(folder):
    """Removes the note last. If this process is killed in the middle, the next one reads the note and removes the rest. Without
    the note it would take the folder for that of a node that is just starting."""
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif name != "owner.json":
            with contextlib.suppress(OSError):
                os.unlink(path)
    shutil.rmtree(folder, ignore_errors=True)


def is_fresh(folder):
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and time.time() - found.st_mtime < FRESH_SECONDS


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def remove_empty(folder):
    try:
        os.rmdir(folder)
    except OSError:
        pass


def unmount(place):
    """Detaches the mount even if programs use it. Their calls fail as soon as the mount's process has ended."""
    for words in (["umount", "-l", place], ["fusermount3", "-uz", place]):
        if place and has_mount(place) and shutil.which(words[0]):
            subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def processes_of(folder):
    """Returns this user's servers and mounts that run in this folder, and commands such as copies that use its
    configuration."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
            if not os.path.basename(words[0]).startswith(b"spate") or os.stat("/proc/" + pid).st_uid != os.geteuid() or int(pid) == os.getpid():
                continue
            with open("/proc/%s/environ" % pid, "rb") as file:
                words += file.read().split(b"\0")
        except OSError:
            continue  # it has ended
        if any(os.fsencode(word) in words for word in (folder, folder + "/spate.toml", "SPATE_FS=" + folder)):
            found.append(int(pid))
    return found


def clean(base, job, host):
    """Removes what jobs left on this node after their processes ended: of one job and one node, or of all jobs. Root
    does so for each user, with the rights of that user only. Returns whether nothing is left."""
    gone = True
    for uid, folders in left_in(base, job).items():
        def work(folders=folders):
            return all([clean_job(folder, host) for folder in folders])
        gone = (work() if uid == os.geteuid() else work_as(uid, work)) and gone
    return gone


def left_in(base, job):
    """Returns {user: folders that this user's jobs left here}, of the users whose folders this process may clean."""
    found = {}
    for name in os.listdir(base) if os.path.isdir(base) else []:
        match = re.fullmatch(r"spate-job-(\d+)-(.+)", name)
        if not match or job not in (None, match.group(2)):
            continue
        folder = os.path.join(base, name)
        try:
            uid = os.lstat(folder).st_uid
        except OSError:
            continue  # another process has just removed it
        if os.path.islink(folder) or uid != int(match.group(1)) or os.geteuid() not in (0, uid) or not keeps_folders(base, uid):
            continue
        found.setdefault(uid, []).append(folder)
    return found


def clean_job(folder, host):
    try:
        nodes = os.listdir(folder)
    except FileNotFoundError:
        return True
    if not nodes:
        remove_empty(folder)
    return all([clear(os.path.join(folder, node)) for node in nodes if host in (None, node)])


def group_of(uid):
    """Returns the primary group of the user. The folder's group would be wrong: it may come from the folder above."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return NOGROUP


def work_as(uid, work):
    """Runs the function in a process with the rights of that user. Returns whether it finished. The process is killed
    after a while, since the user can stop it, or can prepare files that hold it up."""
    gid = group_of(uid)
    child = os.fork()
    if child == 0:
        done = False
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            done = work()
        finally:
            os._exit(0 if done else 1)
    ended = os.pidfd_open(child)
    if not select.select([ended], [], [], CLEAN_SECONDS)[0]:
        os.kill(child, signal.SIGKILL)
    os.close(ended)
    return os.waitpid(child, 0)[1] == 0


def guard(folder):
    """Starts a process that cleans up when this process is gone, even if it was killed. The guard's pipe ends with this
    process."""
    reader, writer = os.pipe()
    if os.fork() != 0:
        os.close(reader)
        return writer
    os.setsid()
    os.close(writer)
    for number in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)
    for name in ENDS:
        signal.signal(name, signal.SIG_IGN)
    os.read(reader, 1)
    wait_for(lambda: not os.path.exists(folder) or clear(folder), 10)
    os._exit(0)


def run_node(given):
    order = read_order()
    node = Node(order, own_name(given, order["servers"]))
    for name in ENDS:
        signal.signal(name, end_signal)
    try:
        node.prepare()
        guard(node.folder)
        node.start_servers()
        say(node.host, "ready")
        node.keep()
    except (JobError, OSError) as error:
        say(node.host, "taken" if "in use" in str(error) else "failed", error)
    finally:
        for name in ENDS:
            signal.signal(name, signal.SIG_IGN)
        for server in node.servers.values():
            server.kill()
            server.wait()
        if node.owned:
            clear(node.folder)
    say(node.host, "gone")
