#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The process that serves a mount is killed while it reads many requests at once, and no call fails: kills.py MOUNT KILLS"""
import os
import random
import signal
import subprocess
import sys
import threading
import time

MOUNT, KILLS = sys.argv[1], int(sys.argv[2])
WRITERS, BYTES = 24, 1 << 20
PIECE = bytes(range(256)) * (BYTES // 256)
failed = []


def supervisor():
    return int(subprocess.run(["pgrep", "-f", f"spate-mount [^ ]*spate.toml {MOUNT}$"], check=True, stdout=subprocess.PIPE).stdout)


def server(of):
    while True:
        found = subprocess.run(["pgrep", "-P", str(of), "-f", "--", "--serve"], stdout=subprocess.PIPE, check=False).stdout.split()
        if found:
            return int(found[0])
        time.sleep(0.01)


def write(number, together):
    with open(f"{MOUNT}/{number}", "wb", buffering=0) as file:
        for i in range(KILLS):
            together.wait()
            try:
                if os.pwrite(file.fileno(), PIECE, i * BYTES) != BYTES:
                    failed.append(f"writer {number}, kill {i}: not all was written")
            except OSError as error:
                failed.append(f"writer {number}, kill {i}: {error}")


def main():
    served_by = supervisor()
    together = threading.Barrier(WRITERS + 1)
    writers = [threading.Thread(target=write, args=(i, together)) for i in range(WRITERS)]
    for writer in writers:
        writer.start()
    for _ in range(KILLS):
        victim = server(served_by)
        together.wait()
        time.sleep(random.uniform(0, 0.004))
        os.kill(victim, signal.SIGKILL)
        while server(served_by) == victim:
            pass
    for writer in writers:
        writer.join()
    assert not failed, "\n".join(failed)
    for number in range(WRITERS):
        with open(f"{MOUNT}/{number}", "rb") as file:
            assert file.read() == PIECE * KILLS, f"file {number} is not what was written"
        os.unlink(f"{MOUNT}/{number}")


main()
