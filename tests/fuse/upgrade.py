#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that notice nothing while the process that serves their mount is replaced: upgrade.py SPATE MOUNT OTHER UPGRADES KILLS"""
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time

SPATE, ONE, TWO = sys.argv[1:4]
UPGRADES, KILLS = int(sys.argv[4]), int(sys.argv[5])
programs = []

# Each program writes until a file "enough" exists, and then writes how many rounds it made.
APPENDER = """
import os
f = os.open("log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
i = 0
while not os.path.exists("enough"):
    record = b"%d %d %d\\n" % (WRITER, i, i * 37 % 5000) + b"x" * (i * 37 % 5000) + b"\\n"
    n = os.write(f, record)
    assert n == len(record), n
    i += 1
print(i)
"""
# Operations that cannot be done twice: a request that runs a second time fails here.
NAMES = """
import os
i = 0
while not os.path.exists("enough"):
    name = "n%d-%d" % (WRITER, i % 7)
    os.mkdir(name)
    f = os.open(name + "/a", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.pwrite(f, b"%d" % i, 5)
    os.link(name + "/a", name + "/b")
    os.rename(name + "/a", name + "/c")
    os.symlink("c", name + "/s")
    os.setxattr(f, "user.i", b"%d" % i, os.XATTR_CREATE)
    os.unlink(name + "/b")
    assert os.fstat(f).st_nlink == 1
    if i % 16 == 0:
        os.fsync(f)
    os.close(f)
    with open(name + "/s", "rb") as again:
        assert again.read() == bytes(5) + b"%d" % i
    os.unlink(name + "/c")
    os.unlink(name + "/s")
    os.rmdir(name)
    i += 1
print(i)
"""
# Two programs increment a counter under a lock, so that both mounts have processes that wait for locks.
COUNTER = """
import fcntl, os
f = os.open("counter", os.O_RDWR | os.O_CREAT, 0o666)
i = 0
while not os.path.exists("enough"):
    fcntl.lockf(f, fcntl.LOCK_EX)
    value = int(os.pread(f, 20, 0) or b"0")
    os.pwrite(f, b"%d" % (value + 1), 0)
    fcntl.lockf(f, fcntl.LOCK_UN)
    i += 1
print(i)
"""
FIO = ["fio", "--name=verify", "--size=8m", "--bsrange=4k-64k", "--rw=randwrite", "--ioengine=psync", "--verify=crc32c", "--fsync=64",
       "--verify_fatal=1", "--numjobs=2", "--output=/dev/null"]
UNTIL_ENOUGH = 'n=0; while [ ! -e enough ]; do "$@" || exit 1; n=$((n+1)); done; echo $n'


def begin(command, mount):
    programs.append(subprocess.Popen(command, cwd=mount, stdout=subprocess.PIPE, start_new_session=True))
    return programs[-1]


def start(program, writer, mount):
    return begin([sys.executable, "-c", f"WRITER = {writer}\n{program}"], mount)


def supervisor():
    return int(subprocess.run(["pgrep", "-f", f"spate-mount [^ ]*spate.toml {ONE}$"], check=True, stdout=subprocess.PIPE).stdout)


def server():
    """Returns the process that serves the mount. Waits while one process hands over to the next."""
    while True:
        found = subprocess.run(["pgrep", "-P", str(supervisor()), "-f", "--", "--serve"], stdout=subprocess.PIPE, check=False).stdout.split()
        if found:
            return int(found[0])
        time.sleep(0.01)


class Holders:
    """Holds open files that only check() touches between the upgrades."""

    def __init__(self):
        self.unlinked = os.open(f"{ONE}/unlinked", os.O_RDWR | os.O_CREAT)
        os.write(self.unlinked, b"0")
        os.unlink(f"{ONE}/unlinked")
        self.locked = os.open(f"{ONE}/locked", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self.locked, fcntl.LOCK_EX)
        fcntl.lockf(self.locked, fcntl.LOCK_EX, 10, 5)
        os.mkdir(f"{ONE}/many")
        self.names = {f"a-name-of-some-length-{i}" for i in range(1500)}
        for name in self.names:
            os.close(os.open(f"{ONE}/many/{name}", os.O_CREAT | os.O_WRONLY))
        self.count = 1

    def check(self):
        os.pwrite(self.unlinked, b"%d" % self.count, 0)
        assert (got := os.pread(self.unlinked, 20, 0)) == b"%d" % self.count, got
        self.count += 1
        for attempt in lambda f: fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB), lambda f: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7):
            other = os.open(f"{TWO}/locked", os.O_RDWR)
            try:
                attempt(other)
                raise SystemExit("a lock is not held any more")
            except BlockingIOError:
                pass
            os.close(other)

    def read_across(self, event):
        with os.scandir(f"{ONE}/many") as directory:
            found = [next(directory).name for _ in range(10)]
            event()
            found += [entry.name for entry in directory]
        assert len(found) == len(self.names) and set(found) == self.names, len(found)

    def end(self):
        os.close(self.locked)
        other = os.open(f"{TWO}/locked", os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
        os.close(self.unlinked)


def upgrade():
    before = server()
    subprocess.run([SPATE, "mount", "--upgrade", ONE], check=True)
    assert (got := server()) != before, got


def kill():
    before = server()
    os.kill(before, signal.SIGKILL)
    while server() == before:
        time.sleep(0.01)


def records(data):
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        writer, number, size = (int(word) for word in data[at:end].split())
        assert data[end + 1:end + 2 + size] == b"x" * size + b"\n", f"record {number} of {writer} is torn at {at}"
        yield writer, number
        at = end + 2 + size


def end_all():
    """Ends each program and its children, which would keep the mount busy."""
    for program in programs:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def main():
    holders = Holders()
    appenders = [start(APPENDER, 0, ONE), start(APPENDER, 1, ONE), start(APPENDER, 2, TWO)]
    counters = [start(COUNTER, 0, ONE), start(COUNTER, 1, TWO)]
    others = [start(NAMES, i, ONE) for i in range(2)]
    if shutil.which("fio"):
        others.append(begin(["sh", "-c", UNTIL_ENOUGH, "sh"] + FIO, ONE))
    else:
        print("without fio --verify: fio is not installed")
    everybody = appenders + counters + others
    for event in [upgrade] * UPGRADES + [kill] * KILLS:
        time.sleep(0.3)  # the programs work on between two events
        holders.read_across(event)
        holders.check()
        ended = [child.args for child in everybody if child.poll() is not None]
        assert not ended, ended
    time.sleep(0.3)  # and after the last event
    os.close(os.open(f"{ONE}/enough", os.O_CREAT))
    rounds = {}
    for child in everybody:
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 0, child.args
        rounds[child] = int(out)
        assert (got := rounds[child]) > 0, got
    with open(f"{TWO}/log", "rb") as log:
        found = list(records(log.read()))
    for writer, child in enumerate(appenders):
        assert [n for w, n in found if w == writer] == list(range(rounds[child])), f"writer {writer}"
    with open(f"{TWO}/counter", "rb") as counter:
        assert (got := int(counter.read())) == sum(rounds[child] for child in counters), got
    holders.end()
    print("rounds:", *rounds.values())


try:
    main()
finally:
    end_all()
