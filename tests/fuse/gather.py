# SPDX-License-Identifier: Apache-2.0
"""gather.py SPATE A B [unmounted]: A is mounted with gather, B without."""
import fcntl
import mmap
import os
import signal
import subprocess
import sys
import time

spate, a, b = sys.argv[1:4]


def status(name):
    text = subprocess.run([spate, "mount", "--status", a], check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line).get(name)


def gathered():
    return int(status("gathered_writes"))


def create(name, flags=0):
    return os.open(f"{a}/{name}", os.O_CREAT | os.O_EXCL | os.O_RDWR | flags, 0o644)


def block(number, size=4096):
    return bytes([number % 251]) * size


def write_blocks(fd, count, first=0):
    for number in range(first, first + count):
        written = os.write(fd, block(number))
        assert written == 4096, f"block {number}: {written} bytes were written"


def blocks(count):
    return b"".join(block(number) for number in range(count))


def has_size(name, wanted):
    """As the other mount sees it."""
    size = os.stat(f"{b}/{name}").st_size
    assert size == wanted, f"{name} has {size} bytes, should have {wanted}"


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def same(got, wanted, what):
    assert got == wanted, f"{what}: {len(got)} bytes instead of {len(wanted)}, or other ones"


def warm_up():
    """The mount learns how much room the targets have."""
    for number in range(200):
        fd = create(f"warm{os.getpid()}.{number}")
        before = gathered()
        write_blocks(fd, 3)
        os.close(fd)
        if gathered() > before:
            return
        time.sleep(0.05)
    raise AssertionError("nothing is gathered")


def gathers(name, flags=0):
    """Writes 20 blocks, most of which must be gathered, and leaves the file open."""
    fd = create(name, flags)
    before = gathered()
    write_blocks(fd, 20)
    assert gathered() >= before + 10, f"{name}: the writes are not gathered"
    assert os.fstat(fd).st_size == 20 * 4096, os.fstat(fd)
    return fd


def closes_and_opens():
    fd = gathers("closed")
    os.close(fd)
    same(read_file(f"{b}/closed"), blocks(20), "after the close")
    for name, flags in ("opened", 0), ("appended", os.O_APPEND):
        fd = gathers(name, flags)
        same(read_file(f"{b}/{name}"), blocks(20), f"{name}, while it is open")
        write_blocks(fd, 5, 20)
        same(read_file(f"{b}/{name}"), blocks(25), f"{name}, after the recall")
        os.close(fd)
    fd = gathers("written")
    with open(f"{b}/written", "r+b") as other:
        other.write(b"x" * 100)
    write_blocks(fd, 1, 20)
    same(read_file(f"{b}/written"), b"x" * 100 + blocks(21)[100:], "after a write by the other")
    os.close(fd)


def order():
    """What follows a write on this mount comes after it."""
    fd = gathers("cut")
    os.ftruncate(fd, 5)
    has_size("cut", 5)
    os.close(fd)
    fd = gathers("times")
    os.utime(fd, ns=(10**9, 2 * 10**9))
    os.close(fd)
    mtime = os.stat(f"{b}/times").st_mtime_ns
    assert mtime == 2 * 10**9, f"mtime is {mtime}"
    fd = gathers("named")
    os.rename(f"{a}/named", f"{a}/renamed")
    has_size("renamed", 20 * 4096)
    os.close(fd)
    fd = gathers("synced")
    os.fsync(fd)
    has_size("synced", 20 * 4096)
    os.close(fd)
    fd = gathers("mapped")
    with mmap.mmap(fd, 8192) as pages:
        pages[0:4] = b"maps"
        same(pages[4:8192], blocks(2)[4:], "through the map")
        pages.flush()
    write_blocks(fd, 3, 20)
    same(read_file(f"{b}/mapped"), b"maps" + blocks(23)[4:], "after a change through a map")
    os.close(fd)


def locks():
    """Who takes a lock sees what was written before it was released."""
    with open(f"{a}/lock", "w") as lock:
        fd = gathers("guarded")
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_blocks(fd, 1, 20)
        fcntl.flock(lock, fcntl.LOCK_UN)
        has_size("guarded", 21 * 4096)
        os.close(fd)


def synced_writes():
    for flag in os.O_SYNC, os.O_DSYNC, os.O_DIRECT:
        fd = create(f"flag{flag}", flag)
        before = gathered()
        memory = mmap.mmap(-1, 4096)
        for _ in range(5):
            os.write(fd, memory)
        assert gathered() == before, f"flag {flag:o}: a write was gathered"
        os.close(fd)


def within_a_second():
    fd = gathers("aged")
    limit = time.monotonic() + 30
    while os.stat(f"{b}/aged").st_size < 20 * 4096:
        assert time.monotonic() < limit, "the servers do not get it"
        time.sleep(0.05)
    os.close(fd)


def kills():
    for name, flags in ("killed", 0), ("killed log", os.O_APPEND):
        server = int(status("server"))
        fd = create(name, flags)
        write_blocks(fd, 20)
        os.kill(server, signal.SIGKILL)
        same(read_file(f"{b}/{name}"), blocks(20), f"{name}, by the other")
        write_blocks(fd, 20, 20)
        same(os.pread(fd, 10**6, 0), blocks(40), f"{name}, here")
        os.fsync(fd)
        os.close(fd)
        same(read_file(f"{b}/{name}"), blocks(40), f"{name}, after the close")


def upgrades():
    fd = gathers("upgraded")
    subprocess.run([spate, "mount", "--upgrade", a], check=True)
    same(read_file(f"{b}/upgraded"), blocks(20), "by the other")
    write_blocks(fd, 5, 20)
    os.close(fd)
    same(read_file(f"{b}/upgraded"), blocks(25), "after the close")


def unmounted():
    fd = gathers("left")
    subprocess.run([spate, "umount", "-z", a], check=True)
    limit = time.monotonic() + 30
    while os.stat(f"{b}/left").st_size < 20 * 4096:
        assert time.monotonic() < limit, "the servers do not get it"
        time.sleep(0.05)
    same(read_file(f"{b}/left"), blocks(20), "after the end of the mount")
    os.close(fd)


warm_up()
if sys.argv[4:] == ["unmounted"]:
    unmounted()
else:
    for test in closes_and_opens, order, locks, synced_writes, within_a_second, upgrades, kills:
        test()
