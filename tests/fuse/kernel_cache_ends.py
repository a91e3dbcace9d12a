#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A call or a connection is cut short on mounts whose kernel keeps names and attributes: kernel_cache_ends.py
killed|aborted MOUNT..."""
import errno
import multiprocessing
import os
import signal
import stat
import sys
import time

from kernel_cache import equal, look, until, waits_for_the_mount, warm, write


def killed_while(call, path, its, server):
    """Kills the caller while the server stands still. Returns False if the call has no effect, since the kernel
    withdrew the request before the mount had read it."""
    before = look(its) and look(its).st_ino
    caller = multiprocessing.Process(target=call, args=(path,))
    os.kill(int(server), signal.SIGSTOP)
    try:
        caller.start()
        until(f"{path}: it waits", lambda: waits_for_the_mount(caller.pid))
        caller.kill()
        caller.join(30)
        equal(f"{path}: its caller", caller.exitcode, -signal.SIGKILL)
    finally:
        os.kill(int(server), signal.SIGCONT)
    limit = time.monotonic() + 5
    while time.monotonic() < limit:
        if look(its) and look(its).st_ino != before:
            return True
        time.sleep(0.01)
    return False


def killed(one, other, server):
    """A process is killed while the server stands still. When its call takes effect later, the name shows it well
    before a lease expires."""
    one, other = os.path.join(one, "killed"), os.path.join(other, "killed")
    os.mkdir(one)
    for name in ("there", "from", "over", "replaced"):
        write(os.path.join(one, name), name)
    there, source, over, replaced = (os.path.join(one, name) for name in ("there", "from", "over", "replaced"))
    calls = {"made": os.mkdir, "created": lambda path: write(path, ""), "symlink": lambda path: os.symlink("x", path),
             "linked": lambda path: os.link(there, path), "renamed": lambda path: os.rename(source, path),
             "replaced": lambda path: os.rename(over, path)}
    for name, call in calls.items():
        path, its = os.path.join(one, name), os.path.join(other, name)
        for _ in range(5):
            warm(there, source, over, replaced, path)
            if killed_while(call, path, its, server):
                break
        else:
            raise SystemExit(f"{name}: never done")
        wanted, limit = look(its).st_ino, time.monotonic() + 4
        while time.monotonic() < limit and (look(path) is None or look(path).st_ino != wanted):
            time.sleep(0.01)
        equal(f"{name}: what the kernel tells of it", look(path) and look(path).st_ino, wanted)


def aborted(one, other, control):
    """The connection is ended by force. A program that has a file open gets an error, not old data."""
    path = os.path.join(one, "aborted")
    write(path, "")
    os.chmod(path, 0o644)
    held = os.open(path, os.O_PATH)
    warm(path)
    os.fstat(held), os.fstat(held)
    write(control, "1")
    os.chmod(os.path.join(other, "aborted"), 0o611)
    for ask in (lambda: os.fstat(held), lambda: os.lstat(path)):
        try:
            equal("after the end", stat.S_IMODE(ask().st_mode), 0o611)
        except OSError as error:
            equal("after the end", error.errno, errno.ENOTCONN)
    os.close(held)


if __name__ == "__main__":
    what = {"killed": killed, "aborted": aborted}
    what[sys.argv[1]](*sys.argv[2:])
