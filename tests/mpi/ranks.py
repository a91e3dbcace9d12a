# SPDX-License-Identifier: Apache-2.0
"""A program of several ranks that runs while a test does other things. No wait for it is without a limit: beyond the limit the test fails and
prints where each rank stands."""
import os
import shutil
import signal
import subprocess
import tempfile
import time

from cluster import PATIENCE, check


def text_of(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def stat_of(pid):
    """Returns (state, parent, session) of a process, or None if it has ended."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return fields[0], int(fields[1]), int(fields[3])
    except OSError:
        return None


def tree_of(first):
    """Returns the pids of a process that leads a session, of all others of the session, and of their children."""
    stats = {pid: stat_of(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
    found = {pid for pid, stat in stats.items() if stat is not None and (pid == first or stat[2] == first)}
    while True:
        more = {pid for pid, stat in stats.items() if stat is not None and stat[1] in found} - found
        if not more:
            return sorted(found)
        found |= more


def where(pid):
    """Returns where each thread of a process stands: in the kernel, and in the program if gdb is installed."""
    lines = []
    for thread in sorted(os.listdir("/proc/%d/task" % pid)):
        place = "/proc/%d/task/%s/" % (pid, thread)
        try:
            with open(place + "comm") as comm, open(place + "wchan") as wchan, open(place + "syscall") as syscall:
                lines.append("  thread %s %s: %s, system call %s" % (thread, comm.read().strip(), wchan.read().strip(), syscall.read().split()[0]))
        except OSError as error:
            lines.append("  thread %s: %s" % (thread, error))
    if shutil.which("gdb"):
        try:
            done = subprocess.run(["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "thread apply all backtrace 30"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
            lines += ["  " + line for line in done.stdout.decode(errors="replace").splitlines() if line.startswith(("#", "Thread"))]
        except subprocess.TimeoutExpired:
            lines.append("  gdb gave no answer")
    return "\n".join(lines)


class Ranks:
    """Starts the command when it is made; `with` ends what is left of it. The program runs in a session of its own: waiting ranks call
    sched_yield() all the time, and Linux 6.18 then lets other processes of their scheduling group, such as the servers, wait for seconds. Its
    output goes to files, which never fill as a pipe does."""

    def __init__(self, words, env):
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self._words = words
        self._lines = 0
        self._process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self._kill()
        self._out.close()
        self._err.close()
        return False

    def _kill(self):
        for pid in tree_of(self._process.pid) if self._process.poll() is None else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()

    def poll(self):
        return self._process.poll()

    def state(self):
        """Returns what the ranks have printed, and where each process of the program stands, for people."""
        pids = tree_of(self._process.pid)
        parents = {stat[1] for stat in map(stat_of, pids) if stat is not None}
        parts = ["%s\n--- standard output\n%s--- standard error\n%s" % (" ".join(self._words), text_of(self._out), text_of(self._err))]
        for pid in pids:
            try:
                with open("/proc/%d/cmdline" % pid) as f:
                    parts.append("--- process %d, %s: %s" % (pid, stat_of(pid)[0], f.read().replace("\0", " ")))
                if pid not in parents:  # those above only wait
                    parts.append(where(pid))
            except (OSError, TypeError):
                parts.append("--- process %d has just ended" % pid)
        return "\n".join(parts)

    def _wait(self, condition, what, seconds):
        end = time.monotonic() + seconds * PATIENCE
        while not condition():
            if time.monotonic() >= end:
                raise AssertionError("waited %d s in vain for %s\n%s" % (seconds * PATIENCE, what, self.state()))
            time.sleep(0.005)

    def line(self, want, seconds=60):
        """Waits for the next line of standard output, which must be `want`."""
        def lines():
            return text_of(self._out).split("\n")[self._lines:-1]
        self._wait(lambda: lines() or self.poll() is not None, 'the line "%s"' % want, seconds)
        check(lines()[:1] == [want], "no line %s: %s" % (want, self.state()))
        self._lines += 1

    def end(self, seconds=60):
        """Waits for the end of the program. Returns its exit code and all of its output."""
        self._wait(lambda: self.poll() is not None, "the end of the program", seconds)
        return subprocess.CompletedProcess(self._words, self.poll(), text_of(self._out), text_of(self._err))
