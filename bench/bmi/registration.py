#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ORFA's Figure 3: what registering memory costs beside copying it (a), and remote reads with a pin-down cache, with a
registration for each, and with copies (b). In a process of its own in the virtual machine of tests/vm, where a device
registers for real:

  registration.py --bin FOLDER --url ofi+verbs://ADDRESS:0 [--runs N]      prints one line: REGISTRATION and JSON
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

SIZES = [1 << n for n in range(10, 21, 2)] + [1 << 15, 1 << 17]
SIZES.sort()
READS = {"pin-down cache": "cache", "registration each time": "register", "copies": "copy"}
COSTS = {"registering": "registering", "copying": "copying"}


def number(program, what, url, size, most):
    """Runs the program once and returns its figure, or None if this machine has no such provider."""
    count = max(20, min(most, most * 16384 // size))
    words = ["what=" + what, "url=" + url, "size=%d" % size, "count=%d" % count]
    with subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            told, why = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            told, why = "", "did not end"
    try:
        return float(told.split()[0])
    except (IndexError, ValueError):
        print("registration_program", *words, ":", why.strip()[-300:], file=sys.stderr, flush=True)
        return None


def measure(program, names, url, runs, most=2000):
    """Returns {name: [median of each size]}. The ways take turns, so that other load on the machine affects all alike."""
    found = {name: [] for name in names}
    for size in SIZES:
        told = {name: [] for name in names}
        for _ in range(runs):
            for name, what in names.items():
                told[name].append(number(program, what, url, size, most))
        for name, values in told.items():
            good = [value for value in values if value is not None]
            found[name].append(statistics.median(good) if good else None)
    return found


def in_machine(binaries, runs, tests):
    """Returns (costs, reads) over software RDMA in a virtual machine."""
    sys.path.insert(0, os.path.join(tests, "vm"))
    from vm import Machine, in_guest
    from rdma_device import ADDRESS, MODULES, SETUP
    here = in_guest(os.path.abspath(__file__))
    script = SETUP + "python3 %s --bin %s --url ofi+verbs://%s:0 --runs %d\n" % (here, in_guest(binaries), ADDRESS, runs)
    told = Machine(modules=MODULES).run(script, timeout=1500, show=False)
    lines = [line for line in told.split("\n") if line.startswith("REGISTRATION ")]
    failed = [line for line in told.split("\n") if line.startswith("registration_program")]
    print("\n".join(failed), file=sys.stderr, flush=True)
    found = json.loads(lines[0].split(" ", 1)[1])
    return found["costs"], found["reads"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    program = os.path.join(options.bin, "registration_program")
    few = 100  # the virtual machine's processor is emulated
    costs = measure(program, COSTS, options.url, options.runs, few)
    reads = measure(program, READS, options.url, options.runs, few)
    print("REGISTRATION " + json.dumps({"costs": costs, "reads": reads}), flush=True)


if __name__ == "__main__":
    main()
