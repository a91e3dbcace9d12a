#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A user who may write a setuid program of root changes it, in every way of writing. The program must lose its setuid
bit."""
import ctypes
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
from cluster import BIN, SANITIZED, SPATE, Cluster, check  # noqa: E402

NOBODY = 65534

# Each script changes the file of its first argument and runs as the user.
WAYS = {
    "append": "f = os.open(p, os.O_WRONLY | os.O_APPEND); os.write(f, b'x')",
    "write": "f = os.open(p, os.O_RDWR); os.pwrite(f, b'x', 10)",
    "direct": "m = mmap.mmap(-1, 4096); f = os.open(p, os.O_WRONLY | os.O_DIRECT); os.pwritev(f, [m], 0)",
    "truncate": "os.truncate(p, 100)",
    "cut while it is open": "f = os.open(p, os.O_RDWR); os.ftruncate(f, 50)",
    "open and cut": "os.open(p, os.O_WRONLY | os.O_TRUNC)",
    "allocate": "f = os.open(p, os.O_RDWR); os.posix_fallocate(f, 0, 200000)",
    "copy": "f = os.open(p, os.O_RDWR); g = os.open(p + '.source', os.O_RDONLY); os.copy_file_range(g, f, 4096)",
    "punch": "f = os.open(p, os.O_RDWR); libc.fallocate(f, 3, ctypes.c_long(0), ctypes.c_long(4096)) and sys.exit('punch')",
    "zero": "f = os.open(p, os.O_RDWR); libc.fallocate(f, 16, ctypes.c_long(0), ctypes.c_long(4096)) and sys.exit('zero')",
}
# A program opens the file as root and changes it as a user.
LATE = "f = os.open(p, os.O_RDWR); os.setgroups([]); os.setresgid(%d, %d, %d); os.setresuid(%d, %d, %d); " % ((NOBODY,) * 6)
LATE_WAYS = {
    "write": "os.pwrite(f, b'x', 10)",
    "cut": "os.ftruncate(f, 50)",
    "allocate": "os.posix_fallocate(f, 0, 200000)",
    "copy": "os.copy_file_range(g, f, 4096)",
}
# By the functions of libspate, whose file is `f`; `g` is another one.
LIBRARY_WAYS = {
    "write": "s.spate_pwrite(f, b'x', 1, 10)",
    "append": "s.spate_write(opened(p, os.O_WRONLY | os.O_APPEND), b'x', 1)",
    "truncate": "s.spate_truncate(fs, p, 100)",
    "cut while it is open": "s.spate_ftruncate(f, 50)",
    "open and cut": "opened(p, os.O_WRONLY | os.O_TRUNC) and 0",
    "allocate": "s.spate_fallocate(f, 0, 0, 200000)",
    "punch": "s.spate_fallocate(f, 3, 0, 4096)",
    "zero": "s.spate_fallocate(f, 16, 0, 4096)",
    "copy": "s.spate_copy_file_range(g, None, f, None, 4096, 0)",
    "list": "s.spate_write_list(f, (ctypes.c_uint64 * 2)(7, 1), 1, (ctypes.c_void_p * 2)(ctypes.addressof(room), 1), 1)",
}
LIBRARY_PROLOGUE = """
import ctypes, os, sys
s, p = ctypes.CDLL(sys.argv[2]), sys.argv[1].encode()
fs = ctypes.c_void_p()
def done(result): return result if result >= 0 else sys.exit("%d" % result)
def opened(path, flags):
    file = ctypes.c_void_p()
    done(s.spate_open(fs, path, flags, 0, ctypes.byref(file)))
    return file
for name in ("pwrite", "write", "copy_file_range", "write_list"): getattr(s, "spate_" + name).restype = ctypes.c_ssize_t
s.spate_pwrite.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long]
s.spate_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
s.spate_truncate.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_long]
s.spate_ftruncate.argtypes = [ctypes.c_void_p, ctypes.c_long]
s.spate_fallocate.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_long]
s.spate_write_list.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
room = ctypes.create_string_buffer(8)
s.spate_copy_file_range.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_size_t, ctypes.c_uint]
done(s.spate_connect(ctypes.byref(fs), None, None))
f, g = opened(p, os.O_RDWR), opened(p + b".source", os.O_RDONLY)
"""
# These scripts change nothing.
HARMLESS = {
    "read": "f = os.open(p, os.O_RDONLY); os.read(f, 10)",
    "open for writing": "f = os.open(p, os.O_RDWR); os.read(f, 10)",
}
PROLOGUE = "import ctypes, mmap, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\np = sys.argv[1]\n"


def as_nobody(fs, command, env=None):
    return subprocess.run(["setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups", *command],
                          env=dict(fs.env, **(env or {})), stderr=subprocess.PIPE, timeout=60)


def mode(fs):
    return int(json.loads(fs.spate("stat", "--json", "spate:/program"))[0]["mode"], 8)


def lend(fs, bits=0o6777):
    fs.spate("rm", "-f", "spate:/program")
    fs.spate("put", "spate:/program", input=b"#!/bin/sh\n" * 1000)
    fs.spate("chmod", oct(bits)[2:], "spate:/program")
    check(mode(fs) == bits, "chmod")


def by_all_ways(fs, name, path, run):
    fs.spate("put", "spate:/program.source", input=b"y" * 8192)
    for way, code in WAYS.items():
        lend(fs)
        done = run(["/usr/bin/python3", "-c", PROLOGUE + code, path])
        check(done.returncode == 0, "%s, %s: %s" % (name, way, done.stderr.decode()))
        check(mode(fs) == 0o777, "%s, %s: the mode is %o" % (name, way, mode(fs)))
    for way, code in HARMLESS.items():
        lend(fs)
        done = run(["/usr/bin/python3", "-c", PROLOGUE + code, path])
        check(done.returncode == 0 and mode(fs) == 0o6777, "%s, %s: %o, %s" % (name, way, mode(fs), done.stderr.decode()))


def by_library(fs, env):
    library = shutil.copy(os.path.join(BIN, "../src/capi/libspate.so"), fs.root)
    for way, code in LIBRARY_WAYS.items():
        lend(fs)
        done = as_nobody(fs, ["/usr/bin/python3", "-c", LIBRARY_PROLOGUE + "done(" + code + ")", "/program", library], env)
        check(done.returncode == 0, "library, %s: %s" % (way, done.stderr.decode()))
        check(mode(fs) == 0o777, "library, %s: the mode is %o" % (way, mode(fs)))


def by_late_users(fs, name, path):
    """Programs that open the file as root and change it as a user, also after another process of the mount has inherited the open file."""
    for way, code in LATE_WAYS.items():
        lend(fs)
        whole = PROLOGUE + "g = os.open(p + '.source', os.O_RDONLY); " + LATE + code
        done = subprocess.run(["/usr/bin/python3", "-c", whole, path], env=fs.env, stderr=subprocess.PIPE, timeout=60)
        check(done.returncode == 0, "%s, late %s: %s" % (name, way, done.stderr.decode()))
        check(mode(fs) == 0o777, "%s, late %s: the mode is %o" % (name, way, mode(fs)))
    lend(fs, 0o2767)
    whole = PROLOGUE + LATE + LATE_WAYS["write"]
    subprocess.run(["/usr/bin/python3", "-c", whole, path], env=fs.env, check=True, timeout=60)
    check(mode(fs) == 0o2767, "%s: setgid of what its group may not execute means something else" % name)
    lend(fs)
    with open(path, "r+b") as file:
        file.write(b"x")
    os.truncate(path, 100)
    check(mode(fs) == 0o6777, "%s: a change of root has taken the bits" % name)


def main():
    if os.geteuid() != 0:
        print("needs root: files of two users")
        sys.exit(77)
    with Cluster(io=2) as fs:
        os.chmod(fs.root, 0o755)
        fs.up()
        # A user of the file system needs its configuration and its client key.
        os.chmod(fs.dir, 0o755)
        os.chmod(fs.dir + "/keys", 0o755)
        os.chmod(fs.dir + "/spate.toml", 0o644)
        subprocess.run(["chown", str(NOBODY), fs.dir + "/keys/client.key"], check=True)
        os.makedirs(fs.root + "/home", exist_ok=True)
        os.chown(fs.root + "/home", NOBODY, NOBODY)
        mnt = fs.root + "/mnt"
        for options in ("allow_other", "allow_other,cache=none", "allow_other,cache=writeback"):
            fs.spate("mount", "-p", "-o", options, mnt)
            try:
                by_all_ways(fs, "mount " + options, mnt + "/program", lambda command: as_nobody(fs, command))
                by_late_users(fs, "mount " + options, mnt + "/program")
            finally:
                fs.spate("umount", mnt)
        env = {"SPATE_FS": fs.dir + "/spate.toml", "HOME": fs.root + "/home", "XDG_STATE_HOME": fs.root + "/home/state"}
        by_all_ways(fs, "preload", "/spate/program", lambda command: as_nobody(fs, [SPATE, "run", "--", *command], env))
        if not SANITIZED:
            by_library(fs, env)
        # Root keeps both bits. setgid on a file that its group may not execute has another meaning and stays.
        lend(fs)
        fs.spate("run", "sh", "-c", "echo more >> /spate/program")
        check(mode(fs) == 0o6777, "a write of root has taken the bits")


main()
