# SPDX-License-Identifier: Apache-2.0
"""A mount with the option gather, and programs that write through it and record outside of the mount what was answered.
Shared by gathered_writes.py and gathered_writes_lost.py."""
import contextlib
import os
import signal
import subprocess
import sys

from cluster import SPATE, check, skip, wait_until

RECORD = 4096


def record(number):
    """The bytes tell their number and differ from those of the neighbours."""
    return b"%11d\n" % number + bytes([number % 251]) * (RECORD - 12)


# Records in one file: then the writer closes it and makes the next one, since a new process of the mount gathers only for new files.
IN_A_FILE = 1000

# Writes the records 0, 1, ... to files and as many to logs, until there is a file "enough". Each call must succeed, unless it may fail: then
# the first error ends the program. It syncs each STEP records. `told` has the number of records that both writes have acknowledged, and of those
# that were synced.
WRITER = """
import os, struct, sys
sys.path.insert(0, sys.argv[1])
from gathering import IN_A_FILE, record
name, told_path, step, may_fail = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5] == "may-fail"
told = os.open(told_path, os.O_RDWR | os.O_CREAT)
files = []
number = synced = 0
try:
    while may_fail or not os.path.exists("enough"):
        if number % IN_A_FILE == 0:
            for file in files:
                os.close(file)
            path = "%s.%d." % (name, number // IN_A_FILE)
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
            files = [os.open(path + "data", flags), os.open(path + "log", flags | os.O_APPEND)]
        for file in files:
            done = os.write(file, record(number))
            assert done == len(record(number)), done
        number += 1
        if number % step == 0:
            for file in files:
                os.fsync(file)
            synced = number
        os.pwrite(told, struct.pack("QQ", number, synced), 0)
    for file in files:
        os.close(file)
except OSError as error:
    if not may_fail:
        raise
"""
writers = []


class Writer:
    def __init__(self, folder, name, told, step=400, may_fail=False):
        self.name = name
        self.told_path = told
        here = os.path.dirname(os.path.abspath(__file__))
        words = [sys.executable, "-c", WRITER, here, name, told, str(step), "may-fail" if may_fail else "must-go-on"]
        self.process = subprocess.Popen(words, cwd=folder)
        writers.append(self)

    def told(self):
        """How many records were acknowledged, and how many of them were synced."""
        with contextlib.suppress(OSError):
            with open(self.told_path, "rb") as file:
                numbers = file.read()
            if len(numbers) == 16:
                return int.from_bytes(numbers[:8], sys.byteorder), int.from_bytes(numbers[8:], sys.byteorder)
        return 0, 0

    def goes_on(self, records=200):
        before = self.told()[0]

        def has():
            check(self.process.poll() is None, "the writer %s has ended: %s" % (self.name, self.process.returncode))
            return self.told()[0] >= before + records
        wait_until(has, "the writer %s goes on" % self.name, 60)

    def end(self):
        check(self.process.wait(60) == 0, "the writer %s failed: %s" % (self.name, self.process.returncode))

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def compare(self, folder, promise):
        """Whether `folder` shows each record once ("equal"); or, of the last file, those that were acknowledged, and perhaps the next
        ("acknowledged"); or of the last file those that were synced, and a prefix of the others ("synced")."""
        acknowledged, synced = self.told()
        for begin in range(0, acknowledged + 1, IN_A_FILE):
            most = min(acknowledged - begin + (0 if promise == "equal" else 1), IN_A_FILE)
            is_last = begin + IN_A_FILE >= acknowledged  # else it was closed before the next record
            least = max(synced - begin, 0) if is_last and promise == "synced" else min(acknowledged - begin, IN_A_FILE)
            for kind in "data", "log":
                path = "%s/%s.%d.%s" % (folder, self.name, begin // IN_A_FILE, kind)
                if least > 0 or os.path.exists(path):
                    self.compare_file(path, begin, least, most)

    @staticmethod
    def compare_file(path, begin, least, most):
        with open(path, "rb") as file:
            found = file.read()
        check(os.stat(path).st_size == len(found), "%s: stat says %d, %d were read" % (path, os.stat(path).st_size, len(found)))
        wanted = b"".join(record(begin + number) for number in range(most))
        check(wanted.startswith(found), "%s has other bytes among its %d, or more than %d" % (path, len(found), len(wanted)))
        check(len(found) >= least * RECORD, "%s has %d bytes, should have %d" % (path, len(found), least * RECORD))


class Mount:
    def __init__(self, fs, name, options=""):
        if not (os.access("/dev/fuse", os.R_OK) and os.access("/dev/fuse", os.W_OK)):
            skip("/dev/fuse cannot be used here")
        self.fs = fs
        self.path = fs.root + "/" + name
        self.log_path = fs.root + "/" + name + ".log"
        every = ",".join(filter(None, [options, "log=" + self.log_path]))
        fs.spate("mount", "-p", self.path, "-o", every, "--fs", fs.dir)

    def status(self, name):
        """A value that `spate mount --status` shows. Nothing while no process serves it."""
        done = self.fs.run("mount", "--status", self.path)
        return dict(line.split(" ", 1) for line in done.stdout.decode().splitlines() if " " in line).get(name)

    def number(self, name):
        return int(self.status(name) or 0)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def waits_with_gathered(self):
        """Returns when writes are acknowledged that the servers do not have."""
        wait_until(lambda: self.number("gather_memory_bytes") > 0, "writes are gathered", 60)

    def is_ready(self):
        """Returns when the mount gathers: it has learned how much room the targets have."""
        tries = iter(range(10**6))

        def gathers():
            before = self.number("gathered_writes")
            path = "%s/ready%d" % (self.path, next(tries))
            with open(path, "xb", buffering=0) as file:
                for _ in range(3):
                    file.write(b"x" * 100)
            os.unlink(path)
            return self.number("gathered_writes") > before
        wait_until(gathers, "the mount gathers", 60)

    def server(self):
        wait_until(lambda: self.number("server") > 0, "a process serves the mount", 60)
        return self.number("server")

    def kill(self, *names):
        pids = [self.number(name) for name in names]
        check(all(pid > 0 for pid in pids), "processes %s of the mount: %s" % (names, pids))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    def unmount(self, *words):
        return self.fs.run("umount", *words, self.path)


@contextlib.contextmanager
def mounts_of(fs):
    """The mounts that are put into the list are unmounted at the end, whatever happens."""
    mounts = []
    try:
        yield mounts
    except BaseException:
        for mount in mounts:
            with contextlib.suppress(OSError):
                print("--- %s\n%s" % (mount.log_path, mount.log()), file=sys.stderr)
        raise
    finally:
        for writer in writers:
            writer.kill()
        for mount in mounts:
            mount.unmount("-z")


def upgrade(mount):
    subprocess.run([SPATE, "mount", "--upgrade", mount.path], check=True, env=mount.fs.env)
