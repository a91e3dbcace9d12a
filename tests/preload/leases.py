#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Data that programs keep under leases (`spate run --leases`) is read without the servers and is never older than
another program's change; and others wait only for a limited time when such a program is stopped or killed. Run by
leases.sh on /spate."""
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import time

D = "/spate/l"
LEASE = 2.0
SLACK = 1.5  # allows for other work of this machine


def worker():
    """Another program: it reads a line for each step and answers with one line."""
    files = {}
    for line in sys.stdin:
        what, *words = line.split()
        try:
            if what == "mode": told = oct(stat.S_IMODE(os.stat(words[0]).st_mode))
            elif what == "many": told = len({os.stat(words[0]).st_ino for _ in range(int(words[1]))})
            elif what == "exists": told = os.path.exists(words[0])
            elif what == "open":
                files[words[0]] = os.open(words[0], os.O_RDWR)
                fcntl.flock(files[words[0]], fcntl.LOCK_EX)
                told = "opened"
            elif what == "use":
                os.pwrite(files[words[0]], b"still here", 0)
                os.fsync(files[words[0]])
                told = os.pread(files[words[0]], 5, 6).decode()
            elif what == "exec":
                print("going", flush=True)  # this program reads no further lines
                os.execv(sys.executable, [sys.executable, __file__, "worker"])
            else: told = "?"
        except OSError as error:
            told = error.strerror
        print(told, flush=True)


class Other:
    """A worker in a process of its own. Without `leases` it runs with the default options."""

    def __init__(self, leases=True):
        environment = dict(os.environ)
        if not leases: del environment["SPATE_CLIENT_ATTRIBUTE_CACHE"]
        self.process = subprocess.Popen([sys.executable, __file__, "worker"], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.stdin.close()
            assert (got := self.process.wait(20)) == 0, got


def make(name, mode=0o640):
    path = f"{D}/{name}"
    with open(path, "w", encoding="ascii") as file: file.write("hello")
    os.chmod(path, mode)
    return path


def seconds_of(function, *arguments):
    begin = time.monotonic()
    function(*arguments)
    return time.monotonic() - begin


def lookups():
    """Returns how often the meta server has been asked."""
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    said = subprocess.run([os.environ["SPATE_BIN"] + "/spate", "stats", "--json"], env=environment, check=True, stdout=subprocess.PIPE)
    operations = json.loads(said.stdout)["total"]["operations_ns"]
    return sum(row["count"] for name, row in operations.items() if name.startswith("lookup"))


def test_what_is_kept_is_answered_without_the_servers():
    path = make("kept")
    with Other() as other, Other(leases=False) as plain:
        assert (got := other("mode", path)) == plain("mode", path) == "0o640", got
        before = lookups()
        assert (got := other("many", path, 500)) == "1", got
        asked = lookups() - before
        assert asked < 20, asked
        before = lookups()
        assert (got := plain("many", path, 500)) == "1", got
        assert (got := lookups() - before) >= 500, got


def test_no_change_is_seen_late():
    path = make("changed")
    with Other() as one, Other() as two:
        for i in range(100):
            mode = 0o600 | i
            os.chmod(path, mode)
            assert (got := one("mode", path)) == two("mode", path) == oct(mode), got
        for i in range(30):
            name = f"{D}/comes-{i}"
            assert (got := one("exists", name)) == "False", got
            assert (got := one("exists", name)) == "False", got
            os.mkdir(name)
            assert (got := one("exists", name)) == "True", got
            os.rename(name, name + "-goes")
            assert (got := one("exists", name)) == "False", got
            assert (got := two("exists", name + "-goes")) == "True", got


def test_changes_of_a_program_that_answers_wait_for_no_lease():
    """The program sleeps in a read of another file."""
    path = make("asleep")
    with Other() as other:
        assert (got := other("mode", path)) == "0o640", got
        took = seconds_of(os.chmod, path, 0o600)
        assert took < LEASE / 2, took
        assert (got := other("mode", path)) == "0o600", got


def test_a_stopped_program_holds_others_up_once_and_loses_nothing():
    path, elsewhere = make("stopped"), make("stopped-too")
    with Other() as other:
        assert (got := other("open", path)) == "opened", got
        for name in (path, elsewhere, path, elsewhere): assert (got := other("mode", name)) == "0o640", got
        other.stop()
        took = seconds_of(os.chmod, path, 0o600)
        assert took < LEASE + SLACK, took
        took = seconds_of(os.chmod, elsewhere, 0o600)
        assert took < SLACK, took
        other.process.send_signal(signal.SIGCONT)
        assert (got := other("mode", path)) == other("mode", elsewhere) == "0o600", got
        # The program was not fenced: it has its file and its lock.
        assert (got := other("use", path)) == "here", got
        with open(path, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                raise AssertionError("the lock is lost")
            except BlockingIOError:
                pass


def test_a_killed_program_holds_others_up_no_longer_than_a_lease():
    path = make("killed")
    with Other() as other:
        assert (got := other("mode", path)) == "0o640", got
        assert (got := other("mode", path)) == "0o640", got
        other.process.kill()
        other.process.wait()
        took = seconds_of(os.chmod, path, 0o600)
        assert took < LEASE + SLACK, took


def test_by_default_nobody_waits_for_programs():
    path = make("plain")
    with Other(leases=False) as stopped, Other(leases=False) as killed:
        assert (got := stopped("mode", path)) == killed("mode", path) == "0o640", got
        stopped.stop()
        killed.process.kill()
        killed.process.wait()
        took = seconds_of(os.chmod, path, 0o600)
        assert took < LEASE / 2, took


def test_who_ends_or_becomes_another_program_gives_back_what_it_keeps():
    path = make("ends")
    with Other() as other:
        assert (got := other("mode", path)) == "0o640", got
        assert (got := other("exec")) == "going", got
        assert (got := other("exists", "/spate")) == "True", got  # the next program is there
        took = seconds_of(os.chmod, path, 0o600)
        assert took < LEASE / 2, took
        assert (got := other("mode", path)) == "0o600", got
    took = seconds_of(os.chmod, path, 0o640)
    assert took < LEASE / 2, took


def test_a_child_of_fork_and_its_parent_see_each_others_changes():
    path = make("forked")
    assert (got := os.stat(path).st_mode & 0o777) == 0o640, got
    child = os.fork()
    if child == 0:
        before = os.stat(path).st_mode & 0o777
        os.chmod(path, 0o604)
        os._exit(0 if before == 0o640 and os.stat(path).st_mode & 0o777 == 0o604 else 1)
    assert (got := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) == 0, got
    assert (got := os.stat(path).st_mode & 0o777) == 0o604, got


def main():
    os.mkdir(D)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            print(name, f"{seconds_of(test):.1f} s", flush=True)


if __name__ == "__main__":
    worker() if sys.argv[1:] == ["worker"] else main()
