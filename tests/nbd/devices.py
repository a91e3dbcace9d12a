#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports of block devices: loop devices over files, which needs root. Contents compared by O_DIRECT, space that is
given back, sectors of 4 KiB, sizes that change, and requests that a device cannot do, each refused with the reason."""
import contextlib
import fcntl
import mmap
import os
import subprocess
import sys
import tempfile

from common import BIN, SPATE, Export, check, conformance, timed, wait_until
from cluster import skip
from failures import failing, may_trace
from nbd_wire import *  # noqa: F403
from paths import refuses_direct, system_calls

KIB, MIB = 1 << 10, 1 << 20
SIZE = 32 * MIB
BLKFLSBUF = 0x1261
LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81
EXTENTS = 64 * KIB  # maximum of a file's blocks that hold no data of its own


def losetup(*words):
    return subprocess.run(["losetup", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=20)


@contextlib.contextmanager
def loop(file, *words):
    """Makes a loop device over the file. Returns its path."""
    set_up = losetup("--find", "--show", *words, file)
    check(set_up.returncode == 0, "losetup: " + set_up.stderr)
    path = set_up.stdout.strip()
    try:
        yield path
    finally:
        losetup("--detach", path)


@contextlib.contextmanager
def client(*args):
    """Yields an export and a connection with all features negotiated."""
    with Export("--port", "0", *args) as export, Connection(export.address) as c:
        c.structured_reply()
        c.option(OPT["SET_META_CONTEXT"], context_data("", "base:allocation"))
        yield export, c.go("")


def blocks(path):
    return os.stat(path).st_blocks * 512


def direct(device, offset, data=None, size=0):
    """Reads or writes past the page cache."""
    fd = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        with mmap.mmap(-1, size or len(data)) as memory:
            if data is None:
                check(os.preadv(fd, [memory], offset) == size, "a short read")
                return memory[:]
            memory[:] = data
            check(os.pwritev(fd, [memory], offset) == len(data), "a short write")
    finally:
        os.close(fd)


def contents(device, file):
    """Data written through the export is on the device after a FLUSH. Data that others write past the page cache is
    visible at once."""
    data = os.urandom(3 * MIB + 77)
    with client(device) as (_, c):
        check(c.size == SIZE and not c.flags & READ_ONLY, "size %d, flags %#x" % (c.size, c.flags))
        for length in (77, 4096, 100_000, 512 * KIB, 3 * MIB):
            c.write(54321, data[:length])
            check(c.read(54321, length) == data[:length], "other bytes of %d by the export" % length)
        c.write(54321, data)
        check(c.request(FLUSH).error == 0, "FLUSH failed")
        check(direct(device, 0, size=4 * MIB)[54321:54321 + len(data)] == data, "other bytes on the device")
        with open(file, "rb") as f:
            check(f.read(4 * MIB)[54321:54321 + len(data)] == data, "other bytes in the file under the device")
        c.write(8 * MIB, data[:4096], FUA)
        check(direct(device, 8 * MIB, size=4096) == data[:4096], "a write with FUA is not on the device")
        for length in (4096, MIB):
            direct(device, 16 * MIB, data=data[-length:])
            check(c.read(16 * MIB, length) == data[-length:], "what was written past the page cache is not seen")
        check(c.request(BLOCK_STATUS, 0, SIZE).extents == [(SIZE, 0)], "holes on a device, which nobody knows of")
        check(c.request(CACHE, 0, SIZE).error == 0, "CACHE failed")


def room(device, file):
    """TRIM and WRITE_ZEROES reach the file under the device. NO_HOLE keeps the space."""
    with client(device) as (_, c):
        c.write(0, b"z" * (12 * MIB), FUA)
        had = blocks(file)
        check(c.request(TRIM, 0, 4 * MIB).error == 0 and blocks(file) <= had - 4 * MIB + EXTENTS, "TRIM leaves %d of %d bytes" % (blocks(file), had))
        check(c.request(WRITE_ZEROES, 4 * MIB, 4 * MIB, FAST_ZERO).error == 0 and blocks(file) <= had - 8 * MIB + EXTENTS, "WRITE_ZEROES leaves %d of %d bytes" % (blocks(file), had))
        before = blocks(file)
        check(c.request(WRITE_ZEROES, 8 * MIB, 4 * MIB, NO_HOLE).error == 0 and blocks(file) >= before - EXTENTS, "NO_HOLE has %d of %d bytes" % (blocks(file), before))
        check(c.read(4 * MIB, 8 * MIB) == bytes(8 * MIB), "not zeros")


def calls(device, file):
    """As with files, large reads are sent from the device's pages and large payloads go through a pipe. Smaller ones
    are copied."""
    data = os.urandom(512 * KIB)
    with client(device) as (export, c):
        c.read(0, 8 * MIB)
        for length, sent in ((64 * KIB, False), (128 * KIB, False), (256 * KIB, True), (MIB, True)):
            seen = system_calls(export.process.pid, lambda: [c.read(at * MIB, length) for at in range(8)])
            check(seen is None or (seen.get("sendfile", 0) >= 8) == sent and (sent or not seen.get("sendfile", 0)), "reads of %d: %s" % (length, seen))
        seen = system_calls(export.process.pid, lambda: [c.write(at * 512 * KIB, data) for at in range(16)])
        check(seen is None or seen.get("splice", 0) >= 16 and seen.get("pwrite64", 0) <= 4, "large writes: %s" % seen)
        check(all(c.read(at * 512 * KIB, len(data)) == data for at in range(16)), "other bytes")


def sectors_read(device):
    with open("/sys/block/%s/stat" % os.path.basename(device)) as f:
        return int(f.read().split()[2])


def cold(device, file):
    """CACHE reads the device's pages, and a read brings in missing ones."""
    data = os.urandom(16 * MIB)
    with client(device) as (_, c):
        c.write(0, data, FUA)
        with open(device, "rb") as f:
            fcntl.ioctl(f, BLKFLSBUF)
        before = sectors_read(device)
        check(c.request(CACHE, 0, 8 * MIB).error == 0, "CACHE failed")
        brought = sectors_read(device)
        check(brought - before >= 8 * MIB // 512, "CACHE has brought %d sectors" % (brought - before))
        # The kernel may have begun to read ahead up to this amount.
        check(c.read(0, 8 * MIB) == data[:8 * MIB] and sectors_read(device) - brought < 4 * MIB // 512, "what CACHE has brought is fetched again")
        check(c.read(0, 16 * MIB) == data and sectors_read(device) > brought, "other bytes")


def parts_of_sectors(device, file):
    """Ranges that begin and end within sectors: the device frees or zeroes whole sectors, and their neighbours stay."""
    data = os.urandom(4 * MIB)
    with client(device) as (_, c):
        for command, flags in ((TRIM, 0), (WRITE_ZEROES, 0), (WRITE_ZEROES, NO_HOLE), (WRITE_ZEROES, FAST_ZERO)):
            for begin, end in ((1001, 3 * MIB + 77), (1001, 1002), (4095, 4097), (4096, 4097), (512, 3 * MIB + 512)):
                c.write(0, data, FUA)
                had = blocks(file)
                error = c.request(command, begin, end - begin, flags).error
                check(error == 0 or error == ENOTSUP and flags == FAST_ZERO, "command %d of %d..%d: error %d" % (command, begin, end, error))
                check(c.read(0, begin) == data[:begin] and c.read(end, len(data) - end) == data[end:], "the neighbours of %d..%d" % (begin, end))
                if command == WRITE_ZEROES:
                    check(c.read(begin, end - begin) == (data[begin:end] if error else bytes(end - begin)), "not zeros: %d..%d" % (begin, end))
                if end > MIB and not flags & NO_HOLE:
                    check(blocks(file) <= had - 2 * MIB, "command %d of %d..%d leaves %d of %d bytes" % (command, begin, end, blocks(file), had))


@contextlib.contextmanager
def loop_of_its_own(file):
    """Uses a new loop device and removes it at the end: some settings stay with a loop device whatever it is used for
    next."""
    with open("/dev/loop-control", "rb") as control:
        number = next(n for n in range(64, 10000) if not os.path.exists("/dev/loop%d" % n))
        fcntl.ioctl(control, LOOP_CTL_ADD, number)
        try:
            wait_until(lambda: os.path.exists("/dev/loop%d" % number), "no /dev/loop%d" % number)
            check(losetup("/dev/loop%d" % number, file).returncode == 0, "losetup")
            yield "/dev/loop%d" % number
        finally:
            losetup("--detach", "/dev/loop%d" % number)
            wait_until(lambda: removed(control, number), "/dev/loop%d stays busy" % number)


def removed(control, number):
    try:
        fcntl.ioctl(control, LOOP_CTL_REMOVE, number)
        return True
    except OSError:
        return False


def without_commands(file):
    """A device that can neither free nor zero: TRIM is only a hint, zeros are written, and FAST_ZERO is refused."""
    data = os.urandom(MIB)
    with loop_of_its_own(file) as device, client(device) as (export, c):
        c.write(0, data)
        with open("/sys/block/%s/queue/discard_max_bytes" % os.path.basename(device), "w") as f:
            f.write("0")
        check(c.request(TRIM, 0, MIB).error == 0 and c.read(0, MIB) == data, "TRIM of a device that does not know it")
        if may_trace():
            with failing(export, fallocate="EOPNOTSUPP"):
                check(c.request(WRITE_ZEROES, 0, MIB, FAST_ZERO).error == ENOTSUP and c.read(0, MIB) == data, "FAST_ZERO was not refused")
                check(c.request(WRITE_ZEROES, 1001, 700_003).error == 0, "WRITE_ZEROES failed")
                check(c.read(0, MIB) == data[:1001] + bytes(700_003) + data[701_004:], "other bytes")


def slow_zeros(memory):
    """If the device has no command that zeroes and keeps the space, the kernel writes zeros, which is not fast."""
    file = os.path.join(memory, "disk")
    with open(file, "wb") as f:
        f.truncate(SIZE)
    with loop(file) as device, client(device) as (_, c):
        before = blocks(file)
        check(c.request(WRITE_ZEROES, 0, MIB, NO_HOLE | FAST_ZERO).error == ENOTSUP, "FAST_ZERO with NO_HOLE was not refused")
        check(blocks(file) == before, "what was refused has been done")
        check(c.request(WRITE_ZEROES, 0, MIB, NO_HOLE).error == 0 and c.read(0, MIB) == bytes(MIB), "zeros with NO_HOLE")


def no_room(memory):
    """A device that has less space than it reports: FLUSH returns the error to everybody who was connected."""
    os.mkdir(memory + "/small")
    small = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", memory + "/small"], stderr=subprocess.PIPE, text=True)
    if small.returncode != 0:
        return print("a device without room was left out: " + small.stderr.strip())
    try:
        with open(memory + "/small/disk", "wb") as f:
            f.truncate(SIZE)
        with loop(memory + "/small/disk") as device:
            with client(device) as (export, c), Connection(export.address) as other:
                other.go("").write(0, b"o" * 4096)
                c.write(0, os.urandom(16 * MIB))
                errors = c.request(FLUSH).error, c.request(FLUSH).error, other.request(FLUSH).error
                check(all(error in (EIO, ENOSPC) for error in errors), "nobody said that writes are lost: %r" % (errors,))
                with Connection(export.address) as later:
                    check(later.go("").request(FLUSH).error == 0, "FLUSH failed for a client that has lost nothing")
    finally:
        subprocess.run(["umount", "--lazy", memory + "/small"], check=True)


def resized(device, file):
    """When a device grows or shrinks, clients see the same as with a file."""
    def resize(size):
        os.truncate(file, size)
        check(losetup("--set-capacity", device).returncode == 0, "losetup --set-capacity")
    with client(device) as (export, c):
        resize(SIZE + MIB)
        with Connection(export.address) as other:
            check(other.go("").size == SIZE + MIB, "the new size is not seen")
            other.write(SIZE, b"new" * 1000)
        check(c.read(SIZE, 3000) == b"new" * 1000, "who was there before does not reach what has been added")
        resize(MIB)
        for length in (512, 64 * KIB, MIB):
            check(c.request(READ, SIZE - length, length).error == EIO, "a read of what is gone did not fail")
            check(c.request(WRITE, SIZE - length, length, 0, bytes(length)).error == ENOSPC, "a write of what is gone did not fail")
        check(c.request(TRIM, MIB - 4096, 8192).error != 0, "TRIM of what is gone did not fail")
        check(len(c.read(0, MIB)) == MIB, "what is left cannot be read")
        resize(SIZE)


def refused(words, why):
    failed = subprocess.run([SPATE, "export", "--port", "0", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=20)
    check(failed.returncode == 1 and words[-1] in failed.stderr and why in failed.stderr, "%r: %d %r" % (words, failed.returncode, failed.stderr))


def write_protected(file):
    with loop(file, "--read-only") as device:
        refused([device], "write-protected")
        with client("--read-only", device) as (_, c):
            check(c.flags & READ_ONLY and len(c.read(0, MIB)) == MIB, "flags %#x" % c.flags)
            for command, data in ((WRITE, bytes(512)), (TRIM, b""), (WRITE_ZEROES, b"")):
                check(c.request(command, 0, 512, 0, data).error == EPERM, "command %d of a read-only export" % command)


def nothing_there(file):
    with loop(file) as device:
        pass
    if losetup(device).returncode == 0:
        return print("a device that is not set up was left out: somebody has taken it")
    refused([device], "no size")
    refused(["--read-only", device], "no size")
    refused(["/dev/null"], "neither a file nor a block device")


def conforms(device, *words):
    with Export("--port", "0", *words, device) as export:
        check(conformance.run(export.address, "", write=True, strict=True, out=open("conformance.log", "a")),
              "not conforming: " + open("conformance.log").read())


def main():
    if os.geteuid() != 0:
        skip("only root makes loop devices")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=BIN) as folder, tempfile.TemporaryDirectory(dir=memory) as other:
        os.chdir(folder)
        file = os.path.join(folder, "disk")
        with open(file, "wb") as f:
            f.truncate(SIZE)
        first = losetup("--find", "--show", file)
        if first.returncode != 0:
            skip("no loop devices: " + first.stderr.strip())
        losetup("--detach", first.stdout.strip())
        kinds = {"sectors of 512 bytes": (), "sectors of 4 KiB": ("--sector-size", "4096")}
        if not refuses_direct(folder):
            kinds["past the page cache"] = ("--direct-io=on",)
        for kind, words in kinds.items():
            with loop(file, *words) as device:
                with timed("conformance: " + kind):
                    conforms(device, "--threads", "2")
                for test in (contents, room, calls, cold, parts_of_sectors, resized):
                    with timed("%s: %s" % (test.__name__, kind)):
                        test(device, file)
        for test in (slow_zeros, no_room):
            with timed(test.__name__):
                test(other)
        for test in (without_commands, write_protected, nothing_there):
            with timed(test.__name__):
                test(file)
        os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
