#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The memory of an open file of the preload library, attacked by a process that shares it: one that was given the descriptor, and one
that has it mapped and has given up its user's rights since."""
import sys

from lib import STRANGER, Cluster, need_root, run_below_spate

# The victim is a program of root under `spate run`. Attackers without the library start with LD_PRELOAD removed.
PRELUDE = """
import ctypes, fcntl, os, signal, struct, subprocess, sys, time
def check(good, what):
    if not good: raise AssertionError(what)
PYTHON = "/usr/bin/python3"  # that every user may start
PLAIN = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
def attack(code, fd, user):
    return subprocess.run([PYTHON, "-c", code, str(fd)], env=PLAIN, pass_fds=[fd], user=user, group=user, extra_groups=[],
                          capture_output=True, text=True)
def mapping():
    # The one state that is mapped: it is the file that was opened last.
    ranges = [line.split()[0] for line in open("/proc/self/maps") if "/memfd:spate:" in line]
    check(len(ranges) == 1, ranges)
    first, last = (int(x, 16) for x in ranges[0].split("-"))
    return first, last - first
def dropped(work):
    # A child that shares the mapping, gives up root, and does its work there.
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([]); os.setresgid(STRANGER, STRANGER, STRANGER); os.setresuid(STRANGER, STRANGER, STRANGER)
            work()
            os._exit(0)
        except BaseException as e:
            os.write(2, repr(e).encode()); os._exit(1)
    check(os.waitpid(child, 0)[1] == 0, "the attacker could not attack")
def write_memory(address, data):
    ctypes.memmove(address, data, len(data))
def find_all(base, size, what):
    memory, found, at = ctypes.string_at(base, size), [], -1
    while (at := memory.find(what, at + 1)) >= 0: found.append(base + at)
    return found
STRANGER = %d
""" % STRANGER

# Truncates the memory: the next process that reads it would die of SIGBUS.
CUT = """
fd = os.open("/spate/a", os.O_RDWR)
cut = "import os, sys\\nm = os.open('/proc/self/fd/' + sys.argv[1], os.O_RDWR)\\nos.ftruncate(m, 0)"
stranger = attack(cut, fd, STRANGER)
check("Permission denied" in stranger.stderr, "another user opens it: " + stranger.stderr)
own = attack(cut, fd, 0)
check("Operation not permitted" in own.stderr, "it can be cut: " + own.stderr)
own = attack(cut.replace("ftruncate(m, 0)", "ftruncate(m, 1 << 30)"), fd, 0)
check("Operation not permitted" in own.stderr, "it can be made longer: " + own.stderr)
seal = cut.replace("os.ftruncate(m, 0)", "import fcntl; fcntl.fcntl(m, 1033, 0x10)")  # F_ADD_SEALS, F_SEAL_FUTURE_WRITE
own = attack(seal, fd, 0)
check("Operation not permitted" in own.stderr, "it can be sealed against its users: " + own.stderr)
check(os.lseek(fd, 1, os.SEEK_SET) == 1 and os.read(fd, 1) == b"a", "the file is not as it was")
"""

# Puts another file's name there, so that the next program of root would write to that file.
FORGE = """
victim = os.open("/spate/a", os.O_RDWR)
other = os.stat("/spate/secret").st_ino
base, size = mapping()
places = find_all(base, size, struct.pack("<Q", os.fstat(victim).st_ino))
check(places, "the handle is not found: this test must learn the new layout")
def forge():
    for place in places: write_memory(place, struct.pack("<Q", other))
dropped(forge)
# A program that has the descriptor from its parent, by exec.
subprocess.run(["/bin/sh", "-c", "echo forged >&%d" % victim], pass_fds=[victim], stderr=subprocess.DEVNULL)
check(open("/spate/secret").read() == "secret", "another file was written: " + open("/spate/secret").read())
"""

# Puts another path and more rights there.
FORGE_TEXT = """
readable = os.open("/spate/a", os.O_RDONLY)
base, size = mapping()
for place in find_all(base, size, b"/spate/a\\0"):
    dropped(lambda: write_memory(place, b"/spate/secret\\0"))
def rights():
    # Every number that may be the flags: O_RDWR | O_TRUNC.
    for place in find_all(base, size, struct.pack("<I", 0)): write_memory(place, struct.pack("<I", 0x202))
code = "import os, sys\\nfd = int(sys.argv[1])\\ntry: os.write(fd, b'x')\\nexcept OSError: pass\\ntry: print(os.readlink('/proc/self/fd/%d' % fd))\\nexcept OSError: print('refused')"
def next_program():
    return subprocess.run([sys.executable, "-c", code, str(readable)], pass_fds=[readable], capture_output=True, text=True)
check("secret" not in next_program().stdout, "the path is believed")
check(os.readlink("/proc/self/fd/%d" % readable) == "/spate/a", "the path is believed by who opened it")
dropped(rights)
next_program()
check(open("/spate/a").read() == "a" * 10, "what was open for reading was written or cut")
"""

# Fills it with 0xff: texts without an end, a huge position, a turn that seems taken, a lock with wild pointers.
WILD = """
fd = os.open("/spate/a", os.O_RDWR)
base, size = mapping()
dropped(lambda: write_memory(base, b"\\xff" * size))
def rang(*_): raise InterruptedError
signal.signal(signal.SIGALRM, rang)
def ends(call):
    # It ends by itself or by a signal. Its output does not matter.
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    try: call()
    except (OSError, ValueError): pass
    finally: signal.setitimer(signal.ITIMER_REAL, 0)
for call in (lambda: os.lseek(fd, 0, os.SEEK_CUR), lambda: os.lseek(fd, 5, os.SEEK_SET), lambda: os.read(fd, 4), lambda: os.write(fd, b"x"),
             lambda: os.fstat(fd), lambda: os.readlink("/proc/self/fd/%d" % fd), lambda: fcntl.fcntl(fd, fcntl.F_GETFL),
             lambda: fcntl.flock(fd, fcntl.LOCK_EX), lambda: fcntl.lockf(fd, fcntl.LOCK_EX, 5, -1, os.SEEK_CUR),
             lambda: subprocess.run(["/bin/cat"], stdin=fd, capture_output=True, timeout=20), lambda: os.close(fd)):
    ends(call)
check(open("/spate/secret").read() == "secret", "other files are there")
"""

# A removed folder of a stranger has the name that the library gives to a working directory in Spate. Root is in it and
# starts a program.
CWD = """
top = "/tmp/.spate-cwd-%d" % os.getpid()
def as_stranger(work):
    child = os.fork()
    if child == 0:
        os.setgroups([]); os.setresgid(STRANGER, STRANGER, STRANGER); os.setresuid(STRANGER, STRANGER, STRANGER)
        work(); os._exit(0)
    check(os.waitpid(child, 0)[1] == 0, "the attacker could not attack")
as_stranger(lambda: os.makedirs(top + "/spate"))
os.chdir(top + "/spate")
as_stranger(lambda: os.removedirs(top + "/spate"))
told = subprocess.run([sys.executable, "-c", "print(open('secret').read())"], capture_output=True, text=True)
check("secret" not in told.stdout and told.returncode != 0, "a relative path led where a stranger wanted: " + told.stdout)
# One's own goes on. Its name cannot be told, so nobody makes it first.
def own_name():
    os.chdir("/spate")
    kernels = subprocess.run(["readlink", "/proc/%d/cwd" % os.getpid()], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True).stdout
    return kernels.split(".spate-cwd-")[1].split("/")[0]
names = {own_name() for _ in range(4)}
check(len(names) == 4 and str(os.getpid()) not in names, "names of folders that a stranger can tell: %s" % names)
told = subprocess.run([sys.executable, "-c", "print(open('secret').read())"], capture_output=True, text=True)
check(told.stdout == "secret\\n", "the working directory is lost: " + told.stderr)
"""

# A process holds the turn for long, here because no server answers it. Others wait until a signal at most, and no
# longer than the holder lives, even if no process had waited for it before.
HELD = """
import glob
folder = os.environ["SPATE_FS"].removesuffix("/spate.toml")
servers = [int(open(path).read().split()[0]) for path in glob.glob(folder + "/run/*.pid")]
check(len(servers) == 2, servers)
fd = os.open("/spate/a", os.O_RDWR)
os.lseek(fd, 0, os.SEEK_END)
ready, told = os.pipe()
begin, go = os.pipe()
child = os.fork()
if child == 0:
    os.lseek(fd, 0, os.SEEK_END)
    os.write(told, b"x")
    os.read(begin, 1)
    os.lseek(fd, 0, os.SEEK_END)
    os._exit(0)
os.read(ready, 1)
def rang(*_): pass
signal.signal(signal.SIGALRM, rang)
signal.setitimer(signal.ITIMER_REAL, 20)
for server in servers: os.kill(server, signal.SIGSTOP)
try:
    os.write(go, b"x")
    # Once the child has it, a wait ends by the signal.
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
    until, interrupted = time.monotonic() + 20, False
    while not interrupted and time.monotonic() < until:
        try: os.lseek(fd, 1, os.SEEK_SET)
        except InterruptedError: interrupted = True
    check(interrupted, "nobody had the turn")
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.kill(child, signal.SIGKILL)
    check(os.lseek(fd, 2, os.SEEK_SET) == 2, "the turn of the dead")
finally:
    for server in servers: os.kill(server, signal.SIGCONT)
os.waitpid(child, 0)
check(os.read(fd, 1) == b"a", "the file is not as it was")
"""

# A process that dies while it holds the turn must not keep it, even if no process had waited for it before.
DEAD = """
fd = os.open("/spate/a", os.O_RDWR)
for waited in (False, True):
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(told, b"x")
        while True: os.lseek(fd, 1, os.SEEK_SET)
    os.read(ready, 1)
    time.sleep(0.05)  # it has had the turn often: the kill falls anywhere
    os.kill(child, signal.SIGKILL)
    if waited: os.waitpid(child, 0)
    check(os.lseek(fd, 3, os.SEEK_SET) == 3, "the turn of the dead")
    if not waited: os.waitpid(child, 0)
"""


def main():
    need_root()
    with Cluster(io=1) as fs:
        fs.up()
        attacks = {"cut": CUT, "forge": FORGE, "forge_text": FORGE_TEXT, "wild": WILD, "cwd": CWD, "held": HELD, "dead": DEAD}
        for name, attack in attacks.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            fs.spate("put", "spate:/a", input=b"a" * 10)
            fs.spate("put", "spate:/secret", input=b"secret")
            run_below_spate(fs, PRELUDE + attack)
            print(name, flush=True)


main()
