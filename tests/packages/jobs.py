# SPDX-License-Identifier: Apache-2.0
"""Programs that work all the time on a machine of tests/integration/machines.py: in a mount, by `spate run` and by
Python. Each ends with an error at the first call that fails and at the first wrong byte."""
import os
import subprocess

from cluster import check, wait_until
from machines import enter

# After each round a program writes its number of rounds to /run/jobs/NAME. It ends when a file /run/jobs/enough exists.
FRAME = """
import os, sys
def rounds():
    n = 0
    while not os.path.exists("/run/jobs/enough"):
        yield n
        n += 1
        with open("/run/jobs/" + sys.argv[1] + ".new", "w") as file:
            file.write(str(n))
        os.rename("/run/jobs/" + sys.argv[1] + ".new", "/run/jobs/" + sys.argv[1])
def record(n):
    return (b"%d " % n) * (n % 700 + 1) + b"\\n"
"""
# Appends to a file that stays open, and reads earlier data. Data for which fsync has returned must be there at the end.
LOG = """
f = os.open(sys.argv[2] + "/log-" + sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
places, end = [], 0
for n in rounds():
    data = record(n)
    if os.write(f, data) != len(data):
        sys.exit("a short write")
    places.append(end)
    end += len(data)
    old = n * 7919 % len(places)
    if os.pread(f, len(record(old)), places[old]) != record(old):
        sys.exit("record %d is another one" % old)
    if n % 8 == 0:
        os.fsync(f)
os.close(f)
"""
# Operations that cannot be done twice: if a call is repeated after it was done, it already fails here.
NAMES = """
base = sys.argv[2] + "/names-" + sys.argv[1]
os.mkdir(base)
for n in rounds():
    folder = base + "/%d" % (n % 5)
    os.mkdir(folder)
    with open(folder + "/a", "xb") as file:
        file.write(record(n))
    os.link(folder + "/a", folder + "/b")
    os.rename(folder + "/a", folder + "/c")
    os.unlink(folder + "/b")
    with open(folder + "/c", "rb") as file:
        if file.read() != record(n):
            sys.exit("%s/c is another file" % folder)
    os.unlink(folder + "/c")
    os.rmdir(folder)
"""
# Reads one large file from the beginning to the end.
READER = """
with open("/run/jobs/large", "rb") as file:
    whole = file.read()
f = os.open(sys.argv[2] + "/large", os.O_RDONLY)
for n in rounds():
    at = n * 65536 % len(whole)
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
    if os.pread(f, 65536, at) != whole[at:at + 65536]:
        sys.exit("other bytes at %d" % at)
"""
PYTHON = """
import spate
fs = spate.connect("/etc/spate")
f = fs.open_file("/by-python", os.O_RDWR | os.O_CREAT | os.O_EXCL)
for n in rounds():
    f.pwrite(record(n), n % 50 * 10000)
    if bytes(f.pread(len(record(n)), n % 50 * 10000)) != record(n):
        sys.exit("other bytes in record %d" % n)
    fs.stat("/large")
"""
PROGRAMS = {
    "log": (LOG, "/mnt/data", []),
    "names": (NAMES, "/mnt/data", []),
    "reader": (READER, "/mnt/data", []),
    "run-log": (LOG, "/spate", ["spate", "run"]),
    "run-names": (NAMES, "/spate", ["spate", "run"]),
    "python": (PYTHON, "/", []),
}
LARGE = """
mkdir -p /run/jobs
head -c 20000000 /dev/urandom > /run/jobs/large
cp /run/jobs/large /mnt/data/large
"""
LOOK = FRAME + """
for name in ("log", "run-log"):
    with open("/run/jobs/" + name) as file:
        rounds = int(file.read())
    with open("/mnt/data/log-" + name, "rb") as file:
        if file.read() != b"".join(record(n) for n in range(rounds)):
            sys.exit(name + " has lost something")
with open("/mnt/data/large", "rb") as file, open("/run/jobs/large", "rb") as same:
    if file.read() != same.read():
        sys.exit("the large file is another one")
for name in ("names", "run-names"):
    if os.listdir("/mnt/data/names-" + name):
        sys.exit("something is left in names-" + name)
"""


class Jobs:
    """Life cycle: with Jobs(...) -> go_on() any number of times -> end(); look() afterwards."""

    def __init__(self, machines, machine, left_out=()):
        self.left_out = left_out  # names of PROGRAMS
        self.machines = machines
        self.machine = machine
        self.programs = {}

    def __enter__(self):
        self.machines.type(self.machine, LARGE)
        for name in PROGRAMS.keys() - set(self.left_out):
            text, folder, prefix = PROGRAMS[name]
            words = [*enter(self.machines.pids[self.machine]), *prefix, "/usr/bin/python3", "-c", FRAME + text, name, folder]
            self.programs[name] = subprocess.Popen(words, env=self.machines.environment(), stdin=subprocess.DEVNULL,
                                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return self

    def __exit__(self, kind, error, trace):
        for program in self.programs.values():
            program.kill()
            program.wait()
        return False

    def rounds(self, name):
        path = "/proc/%d/root/run/jobs/%s" % (self.machines.pids[self.machine], name)
        if not os.path.exists(path):
            return 0
        with open(path, encoding="ascii") as file:
            return int(file.read())

    def check_alive(self):
        for name, program in self.programs.items():
            check(program.poll() is None, "%s has ended: %s" % (name, program.poll() is not None and program.communicate()[0]))

    def go_on(self):
        """Waits until each program has done ten more rounds. The last ones began after this call."""
        goal = {name: self.rounds(name) + 10 for name in self.programs}
        for name in self.programs:
            def reached(name=name):
                self.check_alive()
                return self.rounds(name) >= goal[name]
            wait_until(reached, "%s goes on" % name, 120)

    def end(self):
        self.check_alive()
        self.machines.type(self.machine, "touch /run/jobs/enough")
        for name, program in self.programs.items():
            said = program.communicate(timeout=120)[0]
            check(program.returncode == 0, "%s: exit %d: %s" % (name, program.returncode, said))

    def look(self, when):
        """Checks that everything that the programs have written is there."""
        done = self.machines.run(self.machine, "exec python3 - <<'END'\n%s\nEND" % LOOK)
        check(done.returncode == 0, "%s: %s" % (when, done.stdout))
