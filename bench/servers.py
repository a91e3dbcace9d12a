# SPDX-License-Identifier: Apache-2.0
"""Code that several benches need: a temporary file system, and priority over the processes of other sessions."""
import os
import shutil
import signal
import subprocess
import sys
import time

IO_SERVERS = 4


def log(text):
    print(text, file=sys.stderr, flush=True)


_logged = set()


def log_once(text):
    """Logs a message that holds for many cells only once."""
    if text not in _logged:
        _logged.add(text)
        log(text)


def priority(pid="self"):
    """Gives a session's processes real priority (sched_autogroup), if the kernel supports it and this process has the
    right. Returns whether it has effect."""
    try:
        with open(f"/proc/{pid}/autogroup", "w") as f:
            f.write("-15")
        return True
    except OSError:
        return False


def exit_on_signals():
    """A signal that ends this process raises SystemExit, so that what it has started is ended, too. Later ones are
    ignored, also by the commands that do this."""
    ours = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)

    def leave(number, _):
        for one in ours:
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)
    for one in ours:
        signal.signal(one, leave)


def cpu_seconds(pids):
    """Returns the processor time that the processes have used."""
    ticks = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Servers:
    """A temporary file system, reached by TCP, since most references are, or as `spate up` makes it without options. It is
    removed with all its contents at the end."""

    def __init__(self, options, folder, name, io=IO_SERVERS, tcp_only=True):
        self.spate = os.path.join(options.bin, "spate")
        self.dir = os.path.join(folder, name)
        self.port = options.port
        self.io = io
        self.more = ["--tcp-only"] if tcp_only else []
        self.raise_priority = options.priority
        self.environment = dict(os.environ, XDG_STATE_HOME=os.path.join(folder, "state"))

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def start(self):
        begin = time.monotonic()
        self.run("--quiet", "up", "--dir", self.dir, "--io", str(self.io), "--port", str(self.port), *self.more)
        self.up_seconds = time.monotonic() - begin
        self.pids = []
        for server in range(1, self.io + 2):
            with open(os.path.join(self.dir, "run", f"server-{server}.pid")) as f:
                self.pids.append(int(f.read().split()[0]))
        if self.raise_priority:
            for pid in self.pids:
                priority(pid)
        return self

    def __exit__(self, *unused):
        subprocess.run([self.spate, "--quiet", "down", "--force", "--dir", self.dir], env=self.environment, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def config(self):
        return os.path.join(self.dir, "spate.toml")

    def run(self, *arguments):
        subprocess.run([self.spate, *arguments], env=self.environment, check=True, stdout=subprocess.DEVNULL)

    def rss_mib(self):
        """Returns the memory of the largest daemon."""
        most = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/status") as f:
                most = max(most, next(int(line.split()[1]) for line in f if line.startswith("VmRSS")))
        return most / 1024

    def cpu_seconds(self):
        return cpu_seconds(self.pids)
