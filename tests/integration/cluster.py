# SPDX-License-Identifier: Apache-2.0
"""A file system of real processes for the tests of this folder.

    with Cluster(io=3) as fs:
        fs.up()
        fs.spate("put", "spate:/a", input=b"hello")

Leaving the block stops the servers and checks that nothing was left behind: no process, no listening port.
"""
import fcntl
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BIN = os.environ["SPATE_BIN"]
SPATE = os.path.join(BIN, "spate")
SPATED = os.path.join(BIN, "spated")
SANITIZED = bool(os.environ.get("SPATE_SANITIZED"))  # then Python cannot load libspate or the preload library
PATIENCE = 6 if SANITIZED else 1  # factor by which processes may take longer than usual
WAITS = re.compile(r"spate: has waited for .*; Ctrl-C gives it up$")


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def check(condition, what):
    """An assert that also works when the interpreter's flags switch assertions off."""
    if not condition:
        raise AssertionError(what)


def wait_until(condition, what, seconds=20):
    seconds *= PATIENCE
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, "waited %d s in vain: %s" % (seconds, what))
        time.sleep(0.005)


_port_locks = []  # held until this process ends


def free_ports(count):
    """Returns the first of `count` <= 20 consecutive ports that nobody listens on, outside the range of outgoing
    connections. The ports belong to this process until it ends, even while no server listens there: a lock on a file of
    the range keeps other tests away, including those of other runs. ports.sh does the same."""
    folder = "/tmp/spate-test-ports-%d" % os.getuid()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for place in random.sample(range(1000), 200):
        lock = open("%s/%d" % (folder, place), "w")
        held = []
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            first = 10000 + place * 20
            for port in range(first, first + count):
                held.append(socket.socket())
                held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held[-1].bind(("127.0.0.1", port))
            _port_locks.append(lock)
            return first
        except OSError:
            lock.close()
        finally:
            for one in held:
                one.close()
    raise AssertionError("no free ports")


def stands_still(pid):
    """Returns whether each thread of the process is stopped."""
    def state(thread):
        with open("/proc/%d/task/%s/stat" % (pid, thread)) as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    try:
        return all(state(thread) == "T" for thread in os.listdir("/proc/%d/task" % pid))
    except OSError:  # a thread has just ended
        return False


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            if f.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X"):
                return True
        return len(os.listdir("/proc/%d/task" % pid)) > 1  # its first thread has ended, but others still hold its sockets
    except OSError:
        return False


class Cluster:
    def __init__(self, io=3, env=None, folder=None):
        # Keep the files in memory where possible: killed processes lose nothing there either, and no test waits for a
        # disk.
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.root = folder or tempfile.mkdtemp(prefix="spate-test-", dir=memory)
        self.dir = os.path.join(self.root, "fs")
        self.io = io
        self.port = free_ports(io + 1)
        self.env = dict(os.environ, HOME=self.root, XDG_STATE_HOME=os.path.join(self.root, "state"), **(env or {}))
        self.env.pop("SPATE_FS", None)
        self.seen = set()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            # The error stands before the long logs, so that a reader of only the first lines sees it.
            print("%s: %s\nserver logs:\n%s" % (kind.__name__, error, self.logs()), file=sys.stderr)
        stopped = self.run("down", "-q", "--force", "--dir", self.dir) if os.path.exists(self.dir + "/spate.toml") else None
        left = [pid for pid in self.seen if alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)
        if error is None:
            check(stopped is None or stopped.returncode == 0, "down failed: %s" % (stopped and stopped.stderr))
            check(not left, "processes left behind: %s" % left)
            check(not os.path.exists(self.root), self.root + " cannot be removed")
        return False

    # The command.
    def run(self, *args, input=None, env=None, timeout=60, stdin=None):
        """Runs `spate ARGS`; never raises. stdout and stderr are bytes and text."""
        done = subprocess.run([SPATE, *args], input=input, stdin=stdin, env=dict(self.env, **(env or {})), timeout=timeout * PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        done.stderr = done.stderr.decode(errors="replace")
        return done

    def spate(self, *args, **more):
        """Runs `spate ARGS`, which must succeed and print nothing to standard error. Returns its output as bytes. If a
        busy machine makes a server slow, the command may print after 3 s that it waits."""
        done = self.run(*args, **more)
        said = [line for line in done.stderr.splitlines() if not WAITS.match(line)]
        check(done.returncode == 0 and not said, "spate %s: exit %d, said: %s" % (" ".join(args), done.returncode, done.stderr))
        return done.stdout

    def fails(self, *args, **more):
        """Runs `spate ARGS`, which must fail with a message. Returns the message."""
        done = self.run(*args, **more)
        check(done.returncode not in (0, None) and done.returncode > 0, "spate %s succeeded or crashed: exit %d %s" % (" ".join(args), done.returncode, done.stderr))
        check(done.stderr.startswith("spate: "), "spate %s: no message but %r" % (" ".join(args), done.stderr))
        return done.stderr

    def start(self, *args, **more):
        """Starts `spate ARGS` in the background."""
        return subprocess.Popen([SPATE, *args], env=self.env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **more)

    def up(self, *args):
        out = self.spate("up", "-q", "--dir", self.dir, "--io", str(self.io), "--port", str(self.port), *args)
        self.seen.update(self.pids().values())
        return out

    def complete_fsck(self, *args):
        """Runs `spate fsck ARGS` until all copies are up to date, since fsck compares no other copy: its exit code then has an 8. A server
        that was started anew has not received all of its copies yet, and a busy machine makes a server silent for a moment."""
        said = []

        def is_complete():
            said[:] = [self.run("fsck", *args, timeout=300)]
            return not said[0].returncode & 8 or b"is not up to date" not in said[0].stdout
        wait_until(is_complete, "all copies are up to date", 60)
        return said[0]

    def fsck(self, *args):
        """Checks that `spate fsck ARGS` finds no error."""
        done = self.complete_fsck(*args)
        check(done.returncode == 0, "fsck is not clean: exit %d\n%s%s" % (done.returncode, done.stdout.decode(), done.stderr))

    # The servers. Server 1 is the meta server, 2.. are io servers.
    def pids(self):
        found = {}
        for server in range(1, self.io + 2):
            try:
                with open("%s/run/server-%d.pid" % (self.dir, server)) as f:
                    found[server] = int(f.read().split()[0])
            except (OSError, ValueError, IndexError):
                pass
        return found

    def kill(self, *servers, sig=signal.SIGKILL):
        pids = self.pids()
        for server in servers:
            os.kill(pids[server], sig)
        if sig == signal.SIGKILL:
            wait_until(lambda: not any(alive(pids[s]) for s in servers), "killed servers end")
        if sig == signal.SIGSTOP:  # the signal alone is only on its way: on a busy machine they still answer for a while
            wait_until(lambda: all(stands_still(pids[s]) for s in servers), "stopped servers stand still")

    def set_urls(self, urls_of):
        """Rewrites the urls of each server of a stopped file system: urls_of(tcp URL of the server) returns the new
        list."""
        path = os.path.join(self.dir, "spate.toml")
        with open(path) as f:
            text = f.read()

        def changed(match):
            return "urls = [%s]" % ", ".join('"%s"' % url for url in urls_of(match.group(1)))

        text, count = re.subn(r'urls = \[ ?[^]]*"(tcp://[^"]*)"[^]]*\]', changed, text)
        check(count == self.io + 1, "%d servers found in spate.toml" % count)
        with open(path, "w") as f:
            f.write(text)

    def url(self, server):
        return "tcp://127.0.0.1:%d" % (self.port + server - 1)

    def log(self, server):
        try:
            with open("%s/log/server-%d.log" % (self.dir, server), errors="replace") as f:
                return f.read()
        except OSError:
            return ""

    def logs(self):
        return "".join("--- server %d\n%s" % (s, self.log(s)) for s in range(1, self.io + 2))

    def target(self, server):
        return "%s/server-%d/target-0" % (self.dir, server)

    def datafiles(self, server):
        """Returns the paths of the datafiles that a server holds."""
        return [os.path.join(at, name) for at, _, names in os.walk(self.target(server) + "/d") for name in names]


def make_tree(root, files, large=0, folders=217):
    """Makes a tree with `files` small files of various sizes in at most `folders` folders, and `large` files of 5 MiB, all
    with random content."""
    for i in range(files):
        folder = "%s/%d/%d" % (root, i % folders % 7, i % folders % 31)
        os.makedirs(folder, exist_ok=True)
        with open("%s/f%d" % (folder, i), "wb") as f:
            f.write(os.urandom((i * 977) % 20000))
    for i in range(large):
        with open("%s/large%d" % (root, i), "wb") as f:
            f.write(os.urandom(5 << 20) + bytes([i]))


def same_tree(a, b):
    done = subprocess.run(["diff", "-r", "--no-dereference", a, b], stdout=subprocess.PIPE)
    check(done.returncode == 0, "trees differ:\n" + done.stdout.decode(errors="replace")[:2000])
