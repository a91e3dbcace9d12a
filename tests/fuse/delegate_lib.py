# SPDX-License-Identifier: Apache-2.0
"""Functions of delegate.py: the state of the mounts, and new directories."""
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time

spate, a, b, fs = sys.argv[1:5]
tag = str(os.getpid())
number_of = itertools.count()


def status(name):
    text = subprocess.run([spate, "mount", "--status", a], check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line).get(name)


def queued():
    return int(status("queued_changes"))


def meta():
    """The process of the meta server."""
    with open(f"{fs}/run/server-1.pid") as file:
        return int(file.read().split()[0])


def requests(*operations):
    """How many of these the servers have answered."""
    text = subprocess.run([spate, "stats", "--prometheus"], check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if line.startswith("spate_rpc_request_ns_count")]
    return sum(int(line.split()[-1]) for line in lines if any(f'op="{operation}"' in line for operation in operations))


def fresh(name):
    """A new directory in which changes are queued."""
    name = f"{name}{tag}.{next(number_of)}"
    path = f"{a}/{name}"
    os.mkdir(path)
    for number in range(200):
        before = queued()
        os.mkdir(f"{path}/.{number}")
        if queued() > before:
            return name, number + 1
        time.sleep(0.02)  # until handles are there
    raise AssertionError("nothing is queued")


def make(path):
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))


def has(name, wanted):
    got = len(os.listdir(f"{b}/{name}"))
    assert got == wanted, f"{name} has {got} entries for the other mount, should have {wanted}"
    got = len(os.listdir(f"{a}/{name}"))
    assert got == wanted, f"{name} has {got} entries here, should have {wanted}"


@contextlib.contextmanager
def standing_still(process):
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        try:
            os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass
