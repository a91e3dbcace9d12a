#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks between processes, half of them on one mount and half on the other: locks.py MOUNT MOUNT"""
import errno
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time

ONE, TWO = sys.argv[1:3]
F_OFD_SETLK = 37


class Child:
    """A process that runs one line of Python at a time and returns the result."""
    PROGRAM = """
import errno, fcntl, os, signal, struct, sys
F_OFD_SETLK = 37
def ofd(fd, kind, first, size):
    fcntl.fcntl(fd, F_OFD_SETLK, struct.pack("hhqqi4x", kind, 0, first, size, 0))
def getlk(fd, kind, first, size):
    return struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", kind, 0, first, size, 0)))
signal.signal(signal.SIGUSR1, lambda *_: (_ for _ in ()).throw(InterruptedError(errno.EINTR, "signal")))
for line in sys.stdin:
    try:
        try:
            value = eval(line)
        except SyntaxError:
            exec(line); value = None
        print("ok", value, flush=True)
    except OSError as error:
        print("error", errno.errorcode[error.errno], flush=True)
"""

    def __init__(self, folder):
        self.process = subprocess.Popen([sys.executable, "-c", self.PROGRAM], cwd=folder, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def begin(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        return self.process.stdout.readline().strip()

    def do(self, line):
        self.begin(line)
        return self.end()

    def waits(self):
        """Returns True if the process has not answered for a while: it sleeps in the call that it was told to make."""
        return not select.select([self.process.stdout], [], [], 0.3)[0]

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()


def expect(said, wanted):
    assert said == wanted, f"{said!r}, should be {wanted!r}"


def pair(name):
    with open(f"{ONE}/{name}", "wb") as file:
        file.write(b"0" * 100)
    children = Child(ONE), Child(TWO)
    for child in children:
        expect(child.do(f"f = open({name!r}, 'r+b')"), "ok None")
    return children


def record_locks():
    a, b = pair("records")
    expect(a.do("fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 10)"), "ok None")
    expect(b.do("fcntl.lockf(f, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 15)"), "error EAGAIN")
    expect(b.do("fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 20)"), "ok None")
    kind, _, first, size, _ = eval(b.do("getlk(f, fcntl.F_WRLCK, 0, 0)")[3:])
    assert (kind, first, size) == (fcntl.F_WRLCK, 10, 10), (kind, first, size)
    # A wait that the other process ends by unlocking the middle.
    b.begin("fcntl.lockf(f, fcntl.LOCK_EX, 4, 13)")
    assert b.waits(), "it does not wait for the lock"
    expect(a.do("fcntl.lockf(f, fcntl.LOCK_UN, 4, 13)"), "ok None")
    expect(b.end(), "ok None")
    # A circle of waits.
    a.begin("fcntl.lockf(f, fcntl.LOCK_EX, 1, 13)")
    assert a.waits(), "it does not wait for the lock"
    expect(b.do("fcntl.lockf(f, fcntl.LOCK_EX, 1, 10)"), "error EDEADLOCK")
    expect(b.do("fcntl.lockf(f, fcntl.LOCK_UN)"), "ok None")
    expect(a.end(), "ok None")
    # A signal ends a wait.
    b.begin("fcntl.lockf(f, fcntl.LOCK_EX)")
    assert b.waits(), "it does not wait for the lock"
    b.kill(signal.SIGUSR1)
    expect(b.end(), "error EINTR")
    # Closing any descriptor of the file drops all locks.
    expect(a.do("open('records').close()"), "ok None")
    expect(b.do("fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), "ok None")
    # The end of the process drops them, too.
    b.kill()
    expect(a.do("fcntl.lockf(f, fcntl.LOCK_EX)"), "ok None")
    a.kill()


def open_file_locks():
    a, b = pair("ofd")
    expect(a.do("ofd(f, fcntl.F_WRLCK, 0, 50)"), "ok None")
    expect(b.do("ofd(f, fcntl.F_WRLCK, 0, 0)"), "error EAGAIN")
    expect(a.do("g = open('ofd', 'r+b')"), "ok None")
    expect(a.do("ofd(g, fcntl.F_WRLCK, 0, 0)"), "error EAGAIN")
    expect(a.do("g.close()"), "ok None")  # it is another open file
    expect(b.do("ofd(f, fcntl.F_RDLCK, 10, 5)"), "error EAGAIN")
    b.begin("fcntl.lockf(f, fcntl.LOCK_EX, 10, 0)")
    assert b.waits(), "it does not wait for the lock"
    expect(a.do("f.close()"), "ok None")
    expect(b.end(), "ok None")
    a.kill()
    b.kill()


def flocks():
    a, b = pair("flock")
    expect(a.do("fcntl.flock(f, fcntl.LOCK_SH)"), "ok None")
    expect(b.do("fcntl.flock(f, fcntl.LOCK_SH)"), "ok None")
    expect(b.do("fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)"), "error EAGAIN")
    b.begin("fcntl.flock(f, fcntl.LOCK_EX)")
    assert b.waits(), "it does not wait for the lock"
    expect(a.do("open('flock').close()"), "ok None")
    assert b.waits(), "it does not wait for the lock"
    expect(a.do("fcntl.flock(f, fcntl.LOCK_UN)"), "ok None")
    expect(b.end(), "ok None")
    a.begin("fcntl.flock(f, fcntl.LOCK_EX)")
    assert a.waits(), "it does not wait for the lock"
    a.kill()  # a waiting process can be killed
    b.kill()
    c = Child(ONE)
    expect(c.do("f = open('flock')"), "ok None")
    expect(c.do("fcntl.flock(f, fcntl.LOCK_EX)"), "ok None")
    c.kill()


def counter():
    """Many processes increment a counter in a file under a lock. Each waits for all others."""
    with open(f"{ONE}/counter", "w") as file:
        file.write("0")
    program = """
import fcntl, os, sys
f = os.open("counter", os.O_RDWR)
for _ in range(25):
    fcntl.lockf(f, fcntl.LOCK_EX) if sys.argv[1] == "fcntl" else fcntl.flock(f, fcntl.LOCK_EX)
    n = int(os.pread(f, 20, 0))
    os.pwrite(f, b"%d" % (n + 1), 0)
    fcntl.lockf(f, fcntl.LOCK_UN) if sys.argv[1] == "fcntl" else fcntl.flock(f, fcntl.LOCK_UN)
"""
    for kind in "fcntl", "flock":
        with open(f"{ONE}/counter", "w") as file:
            file.write("0")
        children = [subprocess.Popen([sys.executable, "-c", program, kind], cwd=(ONE, TWO)[i % 2]) for i in range(8)]
        assert not any(got := [child.wait() for child in children]), got
        with open(f"{ONE}/counter", "rb", buffering=0) as file:
            expect(file.read(), b"200")


for test in record_locks, open_file_locks, flocks, counter:
    begin = time.monotonic()
    test()
    print(f"{test.__name__}: {time.monotonic() - begin:.1f} s", flush=True)
