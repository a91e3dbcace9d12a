#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls on files that were open during an upgrade wait for the meta server, and their callers are killed:
killed_after_upgrade.py MOUNT SPATE META-SERVER"""
import os
import signal
import subprocess
import sys
import time

MOUNT, SPATE, META = sys.argv[1], sys.argv[2], int(sys.argv[3])
FLAGS = os.O_RDWR | os.O_CREAT
CALLS = {
    "append": lambda files: os.write(files[0], b"x"),
    "read": lambda files: os.pread(files[0], 10, 0),
    "write": lambda files: os.pwrite(files[0], b"x", 0),
    "truncate": lambda files: os.ftruncate(files[0], 1),
    "allocate": lambda files: os.posix_fallocate(files[0], 0, 100),
    "seek": lambda files: os.lseek(files[0], 0, os.SEEK_DATA),
    "sync": lambda files: os.fsync(files[0]),
    "copy_file_range": lambda files: os.copy_file_range(files[0], files[1], 10, 0, 0),
}


def opened(call):
    more = os.O_APPEND if call == "append" else os.O_DIRECT if call in ("read", "write") else 0
    files = [os.open(f"{MOUNT}/{call}-{i}", FLAGS | more, 0o666) for i in range(2)]
    for file in files:
        with open(f"/proc/self/fd/{file}", "wb") as other:
            other.write(b"0123456789" * 1000)
    return files


def waits_for_mount(process):
    with open(f"/proc/{process}/wchan", encoding="ascii") as file:
        return file.read() == "request_wait_answer"


def begin(call, files):
    process = os.fork()
    if process == 0:
        try:
            CALLS[call](files)
        finally:
            os._exit(0)
    while not waits_for_mount(process):
        time.sleep(0.001)
    return process


def main():
    files = {call: opened(call) for call in CALLS}
    subprocess.run([SPATE, "mount", "--upgrade", MOUNT], check=True)
    os.kill(META, signal.SIGSTOP)
    processes = {call: begin(call, files[call]) for call in CALLS}
    for call, process in processes.items():
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status), f"{call} did not wait for the meta server"
    os.kill(META, signal.SIGCONT)
    for call in CALLS:  # until the mount is served
        with open(f"{MOUNT}/{call}-1", "rb") as file:
            assert file.read()[10:] == b"0123456789" * 999, call


main()
