#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks, appends and files without a name by the C API, in several processes: locks.py LIBSPATE.SO"""
import ctypes
import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import Cluster, check

OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
WRITERS = 4
RECORDS = 30


class Fs:
    """A libspate session in this process."""

    def __init__(self, library, folder):
        self.lib = ctypes.CDLL(library)
        self.lib.spate_write.restype = ctypes.c_ssize_t
        self.lib.spate_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        self.lib.spate_pread.restype = ctypes.c_ssize_t
        self.lib.spate_pread.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long]
        for name in "spate_flock", "spate_lock", "spate_close", "spate_disconnect", "spate_fallocate":
            getattr(self.lib, name).argtypes = None
        self.fs = ctypes.c_void_p()
        self.ok(self.lib.spate_connect(ctypes.byref(self.fs), folder.encode(), None))

    def ok(self, result):
        check(result >= 0, f"error {errno.errorcode.get(-result, result)}")
        return result

    def open(self, path, flags, mode=0o600):
        file = ctypes.c_void_p()
        self.ok(self.lib.spate_open(self.fs, path.encode(), flags, mode, ctypes.byref(file)))
        return file

    def lock(self, file, command, kind, first=0, size=0):
        lock = ctypes.create_string_buffer(struct.pack("hhqqi4x", kind, 0, first, size, 0))
        return self.lib.spate_lock(file, command, lock), struct.unpack("hhqqi4x", lock.raw[:32])

    def end(self, *files):
        for file in files:
            self.ok(self.lib.spate_close(file))
        self.ok(self.lib.spate_disconnect(self.fs))


def writer(fs, number):
    log = fs.open("/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for i in range(RECORDS):
        record = b"%4d %8d" % (number, i) + bytes([65 + number]) * 5000
        check(fs.ok(fs.lib.spate_write(log, record, len(record))) == len(record), "short write")
    fs.end(log)


def counter(fs):
    file = fs.open("/counter", os.O_RDWR | os.O_CREAT)
    for _ in range(20):
        fs.ok(fs.lock(file, OFD_SETLKW, fcntl.F_WRLCK)[0])
        text = ctypes.create_string_buffer(20)
        fs.ok(fs.lib.spate_pread(file, text, 20, 0))
        new = b"%010d" % (int(text.value or b"0") + 1)
        fs.ok(fs.lib.spate_pwrite(file, new, len(new), ctypes.c_long(0)))
        fs.ok(fs.lock(file, OFD_SETLK, fcntl.F_UNLCK)[0])
    fs.end(file)


def holder(fs):
    file = fs.open("/held", os.O_RDWR | os.O_CREAT)
    fs.ok(fs.lib.spate_flock(file, fcntl.LOCK_EX))
    print("locked", flush=True)
    signal.pause()  # until it is killed


def start(role, number, folder, **more):
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), sys.argv[1], role, str(number), folder], **more)


def short_leases(cluster):
    """Starts the file system with sessions that expire soon."""
    cluster.up()
    cluster.spate("down", "-q", "--dir", cluster.dir)
    config = cluster.dir + "/spate.toml"
    with open(config) as file:
        text = file.read()
    line = 'session_lease = "6s"\n'
    text = text.replace("[meta]\n", "[meta]\n" + line) if "[meta]\n" in text else text + "\n[meta]\n" + line
    with open(config, "w") as file:
        file.write(text)
    cluster.up()


def main():
    with Cluster(io=2) as cluster:
        short_leases(cluster)
        folder = cluster.dir
        children = [start("writer", i, folder) for i in range(WRITERS)] + [start("counter", i, folder) for i in range(3)]
        check(not any(child.wait(timeout=60) for child in children), "a child failed")
        fs = Fs(sys.argv[1], folder)
        log = fs.open("/log", os.O_RDONLY)
        size = (13 + 5000) * WRITERS * RECORDS
        data = ctypes.create_string_buffer(size + 1)
        check(fs.ok(fs.lib.spate_pread(log, data, size + 1, 0)) == size, "the log is not as long as its records")
        seen = []
        for at in range(0, size, 5013):
            number, i = (int(x) for x in data.raw[at:at + 13].split())
            check(data.raw[at + 13:at + 5013] == bytes([65 + number]) * 5000, f"torn at {at}")
            seen.append((number, i))
        check(sorted(seen) == [(n, i) for n in range(WRITERS) for i in range(RECORDS)], "records are missing")
        text = ctypes.create_string_buffer(20)
        file = fs.open("/counter", os.O_RDWR)
        fs.ok(fs.lib.spate_pread(file, text, 20, 0))
        check(int(text.value) == 60, f"counted to {text.value}")

        other = start("holder", 0, folder, stdout=subprocess.PIPE)
        check(other.stdout.readline() == b"locked\n", "the holder has no lock")
        held = fs.open("/held", os.O_RDWR)
        check(fs.lib.spate_flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB) == -errno.EAGAIN, "the lock does not hold")
        other.kill()
        other.wait()
        begin = time.monotonic()
        fs.ok(fs.lib.spate_flock(held, fcntl.LOCK_EX))  # when the dead process's session has expired
        print(f"a dead client's lock was had after {time.monotonic() - begin:.0f} s")

        a, b = fs.open("/ofd", os.O_RDWR | os.O_CREAT), fs.open("/ofd", os.O_RDWR)
        fs.ok(fs.lock(a, OFD_SETLK, fcntl.F_WRLCK, 10, 5)[0])
        check(fs.lock(b, OFD_SETLK, fcntl.F_RDLCK)[0] == -errno.EAGAIN, "one process's open files do not conflict")
        result, found = fs.lock(b, OFD_GETLK, fcntl.F_RDLCK)
        check(result == 0 and found[0] == fcntl.F_WRLCK and found[2:5] == (10, 5, -1), f"{result} {found}")
        check(fs.lock(b, OFD_SETLK, fcntl.F_WRLCK, -5, 3)[0] == -errno.EINVAL, "a range before the file")
        temporary = fs.open("/", os.O_RDWR | os.O_TMPFILE)
        check(fs.ok(fs.lib.spate_write(temporary, b"abc", 3)) == 3, "no file without a name")
        fs.end(a, b, temporary, held, file, log)
        cluster.spate("down", "-q")


if len(sys.argv) == 2:
    main()
else:
    process = Fs(sys.argv[1], sys.argv[4])
    writer(process, int(sys.argv[3])) if sys.argv[2] == "writer" else {"counter": counter, "holder": holder}[sys.argv[2]](process)
