#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bmi_program of bench/bmi prints a figure for each pattern over tcp and shm, with few messages."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import check  # noqa: E402

PROGRAM = os.path.join(os.environ["SPATE_BIN"], "bmi_program")
PATTERNS = {
    "round_trip": [["size=24"], ["size=300000"]],
    "stream": [["size=24"], ["size=1048576"], ["size=1048576", "ready=1"]],
    "read": [["servers=2", "clients=2", "rounds=1"]],
    "priority": [["size=24", "load=4"]],
}


def main():
    for network in ("tcp", "shm"):
        for pattern, plans in PATTERNS.items():
            for plan in plans:
                words = ["pattern=" + pattern, "network=" + network, "count=60", *plan]
                done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120)
                said = "%s: exit %d\n%s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr)
                check(done.returncode == 0 and float(done.stdout.split()[0]) > 0, said)
    print("ok")


if __name__ == "__main__":
    main()
