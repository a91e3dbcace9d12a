#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What two copies of a file's data cost, and how long writes stand still when an io server is killed: bench/run mirror.

Reads and writes of 1 MiB and of 4 KiB by one and by several streams, in a directory with replicas=1 and in one with replicas=2, by
turns on the same servers, with the servers' processor time; then writes of 4 KiB with an fsync after each. Then two copies through a mount, beside
GlusterFS's `replica 2` through its own (mounts.py). Then the longest write of all streams while one io server of many groups is killed, and how
long one that was away, or whose disk was emptied, takes to have everything (absence.py). --beside FOLDER: the writes alone, by turns with the servers and the client of an older build. --rate: the same writes over links
of limited speed between the servers (links.py), with both builds if there is another one.
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import absence  # noqa: E402
import links  # noqa: E402
import mounts  # noqa: E402
from servers import Servers, exit_on_signals  # noqa: E402

MIB = 1 << 20
# Of the unreplicated figure; the writes of 4 KiB by the time that they take longer, us.
WRITES_BAR, READS_BAR, SMALL_BAR, STALL_BAR = 0.45, 0.95, 80, 4.0


@contextlib.contextmanager
def client(options, fs, folder, what, size, seconds, streams):
    prefix = links.within(links.CLIENT) if isinstance(fs, links.LinkedServers) else []
    child = subprocess.Popen([*prefix, options.bin + "/mirror_client", fs.config, folder, what, str(size), str(seconds), str(streams)],
                             env=fs.environment, stdout=subprocess.PIPE)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def result(child):
    out = child.communicate()[0]
    if child.returncode != 0:
        sys.exit("a client failed")
    return json.loads(out)


def cell(options, fs, copies, what, size, streams):
    """MiB/s, the median call in us, the servers' processor seconds a GiB. The files are written before the time is taken, which
    counts for the processor, too: so its time is that of a second run of twice the length, less the first. None: the second run
    was so disturbed that it made no more calls than the first."""
    found, used = [], []
    for seconds in (options.seconds, 2 * options.seconds):
        before = fs.cpu_seconds()
        with client(options, fs, "x%d" % copies, what, size, seconds, streams) as child:
            found.append(result(child))
        used.append(fs.cpu_seconds() - before)
    gib = (found[1]["calls"] - found[0]["calls"]) * size / (1 << 30)
    cpu = (used[1] - used[0]) / gib if gib > 0 else None
    return found[1]["calls"] * size / MIB / found[1]["seconds"], found[1]["median_us"], cpu


def median_known(values):
    """The median of those that are not None; nan if all are."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else float("nan")


def bar_of(what, size, streams, rates, medians):
    """What the bar says, and whether it is met."""
    ratio = statistics.median(rates[2]) / statistics.median(rates[1])
    if size == MIB:
        bar = WRITES_BAR if what == "write" else READS_BAR
        return "%.2f of unreplicated; bar %.2f: %s" % (ratio, bar, "met" if ratio >= bar else "missed")
    more = statistics.median(medians[2]) - statistics.median(medians[1])
    text = "%.2f of unreplicated, %+.0f us" % (ratio, more)
    if what == "write" and streams == 1:
        text += "; bar +%d us: %s" % (SMALL_BAR, "met" if more <= SMALL_BAR else "missed")
    return text


def make_folders(fs):
    for copies in (1, 2):
        fs.run("--quiet", "--fs", fs.config, "mkdir", "spate:/x%d" % copies)
        fs.run("--quiet", "--fs", fs.config, "policy", "set", "spate:/x%d" % copies, "replicas=%d" % copies)


def writes(builds, report, where):
    """The writes of each build, by turns. `builds`: (name, options, servers) of each."""
    for size, streams in ((MIB, 1), (MIB, builds[0][1].streams), (4096, 1)):
        for copies in (1, 2):
            found = {name: [] for name, _, _ in builds}
            for turn in range(builds[0][1].runs):
                for name, options, fs in (builds if turn % 2 == 0 else builds[::-1]):
                    found[name].append(cell(options, fs, copies, "write", size, streams))
            for name, cells in found.items():
                rates, medians, cpus = zip(*cells)
                print("%s, %-6s write %4d KiB %d streams  replicas=%d: %5.0f MiB/s (%.0f to %.0f), call %6.0f us (%.0f to %.0f), servers %.2f CPU s/GiB" % (
                    where, name, size // 1024, streams, copies, statistics.median(rates), min(rates), max(rates), statistics.median(medians),
                    min(medians), max(medians), median_known(cpus)), flush=True)
                report.append({"where": where, "build": name, "bytes": size, "streams": streams, "replicas": copies, "MiB/s": rates,
                               "call, us": medians, "CPU s/GiB": cpus})


def compare(options, folder, report):
    chosen = [("this", options)]
    if options.beside:
        chosen.insert(0, ("older", argparse.Namespace(**dict(vars(options), bin=options.beside, port=options.port + 20))))
    if options.rate:
        # One after the other: both use the same addresses.
        with links.Links(options.rate):
            for name, build in chosen:
                with links.LinkedServers(build, folder, name) as fs:
                    make_folders(fs)
                    writes([(name, build, fs)], report, options.rate)
        return
    with contextlib.ExitStack() as stack:
        builds = [(name, build, stack.enter_context(Servers(build, folder, name, build.io))) for name, build in chosen]
        for _, _, fs in builds:
            make_folders(fs)
        writes(builds, report, "loopback")


def by_turns(options, fs, what, size, streams):
    """Rates, median calls and processor times, each as {copies: [of each run]}."""
    found = {1: [], 2: []}
    for _ in range(options.runs):
        for copies in (1, 2):
            found[copies].append(cell(options, fs, copies, what, size, streams))
    return [{copies: list(column[i]) for copies, column in ((c, list(zip(*cells))) for c, cells in found.items())} for i in range(3)]


def costs(options, folder, report):
    with Servers(options, folder, "costs", options.io) as fs:
        make_folders(fs)
        for size in (MIB, 4096):
            for what in ("write", "read"):
                for streams in (1, options.streams):
                    rates, medians, cpus = by_turns(options, fs, what, size, streams)
                    said = bar_of(what, size, streams, rates, medians)
                    for copies in (1, 2):
                        print("%-5s %4d KiB %d streams  replicas=%d: %7.0f MiB/s (%.0f to %.0f), call %6.0f us, servers %.2f CPU s/GiB  %s" % (
                            what, size // 1024, streams, copies, statistics.median(rates[copies]), min(rates[copies]), max(rates[copies]),
                            statistics.median(medians[copies]), median_known(cpus[copies]), said if copies == 2 else ""), flush=True)
                    report.append({"what": what, "bytes": size, "streams": streams, "MiB/s": rates, "call, us": medians, "CPU s/GiB": cpus,
                                   "said": said})


def fsyncs(options, folder, report):
    """A file of 4 KiB, written and synced again and again."""
    with Servers(options, folder, "fsyncs", options.io) as fs:
        make_folders(fs)
        rates, medians, cpus = by_turns(options, fs, "fsync", 4096, 1)
        calls = {copies: [rate * MIB / 4096 for rate in of_runs] for copies, of_runs in rates.items()}
        more = statistics.median(medians[2]) - statistics.median(medians[1])
        for copies in (1, 2):
            print("write + fsync 4 KiB 1 streams  replicas=%d: %7.0f per s (%.0f to %.0f), call %6.0f us (%.0f to %.0f), servers %.0f CPU us a call  %s" % (
                copies, statistics.median(calls[copies]), min(calls[copies]), max(calls[copies]), statistics.median(medians[copies]),
                min(medians[copies]), max(medians[copies]), median_known(cpus[copies]) * 4096 / (1 << 30) * 1e6,
                "%.2f of unreplicated, %+.0f us" % (statistics.median(calls[2]) / statistics.median(calls[1]), more) if copies == 2 else ""), flush=True)
        report.append({"what": "write + fsync", "bytes": 4096, "streams": 1, "per s": calls, "call, us": medians, "CPU s/GiB": cpus})


def stall(options, folder, report):
    with Servers(options, folder, "stall", options.many) as fs:
        fs.run("--quiet", "--fs", fs.config, "mkdir", "spate:/x2")
        fs.run("--quiet", "--fs", fs.config, "policy", "set", "spate:/x2", "replicas=2")
        # Files of all groups: one stream each, so that each call shows what its groups do.
        with client(options, fs, "x2", "write", 4096, 9, options.files) as child:
            time.sleep(3)  # of writes before the fault
            os.kill(fs.pids[-1], signal.SIGKILL)
            longest = result(child)["longest_us"] / 1e6
        print("an io server of %d killed, %d files: longest write %.2f s; bar %.1f s: %s" % (
            options.many, options.files, longest, STALL_BAR, "met" if longest <= STALL_BAR else "missed"))
        report.append({"what": "longest write, s", "io servers": options.many, "longest": longest, "bar": STALL_BAR})


PARTS = {"costs": costs, "fsyncs": fsyncs, "mounts": mounts.run, "stall": stall, "absence": absence.run}


def main():
    exit_on_signals()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--io", type=int, default=3, help="io servers")
    parser.add_argument("--many", type=int, default=8, help="io servers of the file system of which one is killed")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--port", type=int, default=17600)
    parser.add_argument("--priority", action="store_true")
    parser.add_argument("--size", type=int, default=256, help="of each file through the mounts, MiB")
    parser.add_argument("--calls", type=int, default=1000, help="writes with fsync, and new files, of each stream through the mounts")
    parser.add_argument("--away", type=int, default=60, help="how long the io server of the part absence is away, s")
    parser.add_argument("--cold", type=int, default=16, help="files of 64 MiB that do not change in the part absence")
    parser.add_argument("--rebuild-rate", type=int, default=100, help="flow.rebuild_rate of the part absence, MiB a second")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--beside", metavar="FOLDER", help="the programs of an older build")
    parser.add_argument("--rate", help="of each link, as tc takes it: 1gbit (root)")
    parser.add_argument("--json")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="spate-bench-", dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"))
    report = []
    try:
        if options.beside or options.rate:
            compare(options, folder, report)
        else:
            for name in [options.only] if options.only else PARTS:
                PARTS[name](options, folder, report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(report, f, indent=2)


main()
