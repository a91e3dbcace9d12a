# SPDX-License-Identifier: Apache-2.0
"""Code that the tests of the data paths share: clients that take commands, counters, other URLs."""
import ctypes
import mmap
import os
import re
import shutil
import signal
import subprocess
import tempfile

from cluster import BIN, check, wait_until

PLAIN = {"read": ("preadv2", "preadv", "pread64"), "write": ("pwritev2", "pwritev", "pwrite64")}


class Client:
    """A path_client process: client.say("write 0 4096 7") == "ok"."""

    def __init__(self, fs, config="spate.toml", **more):
        self.process = subprocess.Popen([os.path.join(BIN, "path_client"), os.path.join(fs.dir, config)], env=fs.env, **more,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def say(self, line):
        self.send(line)
        return self.answer()

    def ok(self, *lines):
        for line in lines:
            said = self.say(line)
            check(said == "ok", "%s: %s" % (line, said))

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def refuses_direct(folder):
    """Returns whether `folder` has no O_DIRECT or lies in memory."""
    path = os.path.join(folder, "probe")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
        return subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, text=True).stdout.strip() == "tmpfs"
    except OSError:
        return True


def system_calls(pid, work):
    """Counts the system calls of a process while `work` runs: {name: times}. Prints a message and returns None if they
    cannot be traced."""
    with tempfile.NamedTemporaryFile() as out:
        tracer = shutil.which("strace") and subprocess.Popen([shutil.which("strace"), "-f", "-c", "-o", out.name, "-p", str(pid)], stderr=subprocess.PIPE)
        if not tracer or "attached" not in tracer.stderr.readline().decode():
            print("system calls were not looked at: there is no strace that may trace")
            work()
            return None
        work()
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=20)
        with open(out.name) as f:
            return {line.split()[-1]: int(line.split()[3]) for line in f if line.strip() and line.split()[0][0].isdigit()}


def expect_calls(pid, work, some=(), none=(), what=""):
    """Checks that `work` makes at least one of the calls `some` and none of `none`."""
    calls = system_calls(pid, work)
    if calls is not None:
        fine = (not some or any(calls.get(name, 0) for name in some)) and not any(calls.get(name, 0) for name in none)
        check(fine, "%s: system calls %s; wanted one of %s and none of %s" % (what, calls, some, none))


def pattern(seed, offset, size):
    """Returns the bytes that path_client writes there."""
    out, mask = bytearray(), (1 << 64) - 1
    for at in range(offset, offset + size):
        word = ((seed + 1) * 0x9E3779B97F4A7C15 + (at // 8) * 0xBF58476D1CE4E5B9) & mask
        out.append(((word ^ (word >> 29)) >> (8 * (at % 8))) & 255)
    return bytes(out)


def metric(fs, server, name, **labels):
    """Returns the sum of one server's counter over all samples with these labels."""
    total = 0
    for line in fs.spate("stats", "--prometheus", str(server)).decode().splitlines():
        if not (line.startswith("spate_" + name + "{") or line.startswith("spate_" + name + " ")):
            continue
        if all('%s="%s"' % item for item in labels.items()) and all('%s="%s"' % item in line for item in labels.items()):
            total += int(float(line.split()[-1]))
    return total


def moved(fs, server, path, direction):
    return metric(fs, server, "flow_bytes_total", path=path, direction=direction)


def set_shm_urls(fs):
    """Puts an address in shared memory before each server's tcp address. The file system must be down."""
    path = os.path.join(fs.dir, "spate.toml")
    with open(path) as f:
        text = f.read()
    numbers = iter(range(1, 100))
    changed = re.sub(r'urls = \["(tcp://[^"]*)"\]',
                     lambda m: 'urls = ["shm://%s/s%d", "%s"]' % (fs.root, next(numbers), m.group(1)), text)
    check(changed != text, "no urls in " + path)
    with open(path, "w") as f:
        f.write(changed)


def up_by_shm(fs):
    """Starts a new file system whose servers each have an address in shared memory and one by tcp. tcp.toml has only
    the latter. What clients may do by themselves is as in a spate.toml that says nothing of it."""
    fs.up("--tcp-only")
    shutil.copy(fs.dir + "/spate.toml", fs.dir + "/tcp.toml")
    fs.spate("down", "-q", "--dir", fs.dir)
    set_shm_urls(fs)
    fs.up()


def pages_cached(file):
    """Returns how many pages of an open file are in memory."""
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        return 0
    with mmap.mmap(file.fileno(), size) as memory:
        first = (ctypes.c_char * size).from_buffer(memory)
        told = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
        failed = ctypes.CDLL(None, use_errno=True).mincore(ctypes.byref(first), ctypes.c_size_t(size), told)
        del first  # or else the memory stays mapped
        check(failed == 0, "mincore: errno %d" % ctypes.get_errno())
        return sum(page & 1 for page in told)


def forget_pages(file):
    """Drops an open file from the page cache. Repeats that, since pages on their way to a device or through a socket
    are not dropped at once."""
    def dropped():
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return pages_cached(file) == 0
    wait_until(dropped, "%s stays in the page cache" % file.name)
