#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a server does its I/O: the kind that `trove` requests is used, and "auto" takes threads where io_uring is
refused."""
import ctypes
import json
import os
import resource
import struct
import subprocess

from cluster import SPATE, Cluster, alive, check

IO_URING_SETUP, EPERM = 425, 1
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
DATA = os.urandom(3 << 20)


def without_io_uring():
    """Makes io_uring_setup fail for this process and its children, as in many containers."""
    load, equal, ret = 0x20, 0x15, 0x06
    program = b"".join(struct.pack("HBBI", *one) for one in (
        (load, 0, 0, 0), (equal, 0, 1, IO_URING_SETUP), (ret, 0, 0, 0x00050000 | EPERM), (ret, 0, 0, 0x7fff0000)))
    buffer = ctypes.create_string_buffer(program)
    filter_of = struct.pack("HxxxxxxQ", 4, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_of, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def up(fs, kind, refused):
    """Runs `spate up --trove KIND`; with `refused` in a place without io_uring."""
    args = [SPATE, "up", "-q", "--dir", fs.dir, "--io", "1", "--port", str(fs.port), "--trove", kind]
    done = subprocess.run(args, env=fs.env, preexec_fn=without_io_uring if refused else None, stderr=subprocess.PIPE, timeout=60)
    fs.seen.update(fs.pids().values())
    return done.returncode, done.stderr.decode()


def stores(fs):
    """Returns how each target is stored, as df reports it."""
    return [target["store"] for target in json.loads(fs.spate("df", "--json"))["targets"]]


def works(kind, refused, wanted):
    with Cluster(io=1) as fs:
        code, said = up(fs, kind, refused)
        check(code == 0, "up --trove %s%s: %s" % (kind, " without io_uring" if refused else "", said))
        check(all(wanted in store for store in stores(fs)), "--trove %s%s: %s" % (kind, " without io_uring" if refused else "", stores(fs)))
        fs.spate("put", "spate:/data", input=DATA)
        check(fs.spate("cat", "spate:/data") == DATA, "what was written is not what is read")
        fs.spate("down", "-q")
        code, said = up(fs, kind, refused)
        check(code == 0 and fs.spate("cat", "spate:/data") == DATA, "the content differs after a restart: " + said)


def no_larger_files(kind):
    """If the server may not write (RLIMIT_FSIZE, whose signal would end it), the write returns an error, and the server
    goes on."""
    with Cluster(io=1) as fs:
        code, said = up(fs, kind, False)
        check(code == 0, "up --trove %s: %s" % (kind, said))
        fs.spate("put", "spate:/before", input=DATA[:1 << 20])
        server = fs.pids()[2]
        resource.prlimit(server, resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
        said = fs.fails("put", "spate:/data", input=DATA)
        check(fs.pids()[2] == server and alive(server), "the server has ended: " + said)
        check(fs.spate("cat", "spate:/before") == DATA[:1 << 20], "what was written before is not there")


works("pool", False, "pool")
no_larger_files("pool")
works("pool", True, "pool")
works("auto", True, "pool")
with Cluster(io=1) as fs:
    code, said = up(fs, "uring", True)
    check(code == 1 and "uring" in said and '"pool"' in said, "forced io_uring where there is none: exit %d, %s" % (code, said))
with Cluster(io=1) as fs:
    code, said = up(fs, "disk", False)
    check(code == 2 and '--trove takes "auto" | "uring" | "pool" | "mem"' in said, "a kind that does not exist: exit %d, %s" % (code, said))
    check(up(fs, "mem", False)[0] == 0, "up --trove mem fails")
    code, said = up(fs, "pool", False)
    check(code == 2 and "--trove pool" in said, "a running file system of another kind: exit %d, %s" % (code, said))
with Cluster(io=1) as fs:
    available = up(fs, "uring", False)[0] == 0
if available:  # if not, this machine is such a place itself
    works("uring", False, "uring")
    works("auto", False, "uring")
