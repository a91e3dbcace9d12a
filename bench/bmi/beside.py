# SPDX-License-Identifier: Apache-2.0
"""Compares bmi with an older build of it. The two programs take turns, pair by pair, so that other load on the machine
affects both alike."""
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

LEAST = 1.02  # a figure that is worse by more than this factor is reported

# Each run takes about 0.3 s on a quiet machine: 20 pairs of all runs end within eight minutes.
TRIPS = {
    "tcp, 64 B, asleep": {"size": 64, "count": 4000},
    "tcp, 64 B, polling": {"size": 64, "count": 20000, "poll": 1},
    "tcp, 1200 B, polling": {"size": 1200, "count": 20000, "poll": 1},
    "shm, 64 B, asleep": {"network": "shm", "size": 64, "count": 5000},
    "shm, 64 B, polling": {"network": "shm", "size": 64, "count": 300000, "poll": 1},
    "shm, 1200 B, polling": {"network": "shm", "size": 1200, "count": 200000, "poll": 1},
}
STREAMS = {
    "tcp, 4 KiB": {"pattern": "stream", "size": 4096, "count": 150000},
    "tcp, 64 KiB": {"pattern": "stream", "size": 65536, "count": 20000},
    "shm, 4 KiB": {"network": "shm", "pattern": "stream", "size": 4096, "count": 300000},
    "shm, 64 KiB": {"network": "shm", "pattern": "stream", "size": 65536, "count": 30000},
    "tcp, parallel read 2x2": {"pattern": "read", "servers": 2, "clients": 2, "rounds": 10},
    "shm, parallel read 2x2": {"network": "shm", "pattern": "read", "servers": 2, "clients": 2, "rounds": 10},
}
# Messages of instructions_program, one process that plays both ends in turn: (network, kind, bytes).
COUNTED = [(network, kind, size) for network in ("tcp", "shm") for kind, size in
           (("unexpected", 64), ("control", 64), ("control", 1200), ("bulk", 4096), ("bulk", 65536))]
MESSAGES = 2000


def words(plan):
    return ["%s=%s" % item for item in plan.items()]


def figure(folder, plan):
    """Returns the figure that the program measured, or None if it failed. Builds from before 2026-11-23 fail if a
    loaded machine delays them by more than 5 s."""
    done = subprocess.run([os.path.join(folder, "bmi_program"), *words(plan)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          timeout=120)
    return float(done.stdout.split()[0]) if done.returncode == 0 else None


def turns(new, older, pairs):
    """Prints a line for each figure and returns how many figures are worse. The interval is the 95 % confidence
    interval of the median, by ranks."""
    worse = 0
    print("%-26s%14s%14s%10s   %s" % ("", "older", "this", "slower", "95 % of the pairs' median"))
    for group, unit, better in ((TRIPS, "us", 1), (STREAMS, "GB/s", -1)):
        for name, plan in group.items():
            got = []
            for pair in range(pairs):
                order = (older, new) if pair % 2 == 0 else (new, older)
                values = {folder: figure(folder, plan) for folder in order}
                if None not in values.values():
                    got.append((values[older], values[new]))
            if not got:
                print("%-26s no pair ended" % name, flush=True)
                continue
            ratios = sorted((b / a) ** better for a, b in got)
            half, reach = len(got) // 2, int(len(got) ** 0.5)
            low, high = ratios[max(0, half - reach - 1)], ratios[min(len(got) - 1, half + reach)]
            scale = 1 if better == 1 else 1e-9
            verdict = "WORSE" if low > LEAST else "unclear" if statistics.median(ratios) > LEAST else ""
            worse += verdict == "WORSE"
            print("%-26s%9.2f %4s%9.2f %4s%9.3f   %.3f to %.3f %s" % (
                name, statistics.median(a for a, _ in got) * scale, unit, statistics.median(b for _, b in got) * scale, unit,
                statistics.median(ratios), low, high, verdict or ("" if len(got) == pairs else "%d pairs" % len(got))), flush=True)
    return worse


def instructions(folder, network, kind, size):
    """Returns the instructions in user mode that one message costs at both ends. The difference of two runs removes the
    costs of start and end."""
    totals = []
    for count in (MESSAGES, 2 * MESSAGES):
        with tempfile.TemporaryDirectory() as place:
            out = os.path.join(place, "out")
            subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out, os.path.join(folder, "instructions_program"),
                            network, kind, str(size), str(count)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600, check=True)
            with open(out) as f:
                totals.append(int(re.search(r"^summary: (\d+)", f.read(), re.M)[1]))
    return (totals[1] - totals[0]) / MESSAGES


def count_instructions(new, older):
    if shutil.which("valgrind") is None:
        sys.exit("apt-get install valgrind")
    print("%-26s%14s%14s%10s" % ("instructions a message", "older", "this", "ratio"))
    for network, kind, size in COUNTED:
        a, b = instructions(older, network, kind, size), instructions(new, network, kind, size)
        print("%-26s%14.0f%14.0f%10.3f" % ("%s, %s, %d B" % (network, kind, size), a, b, b / a), flush=True)
