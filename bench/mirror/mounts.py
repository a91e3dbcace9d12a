# SPDX-License-Identifier: Apache-2.0
"""Mirrored files through a mount of Spate, and those of GlusterFS through its own, by turns: two copies of each."""
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "frontends"))
import peers  # noqa: E402 (after the path)
from servers import Servers, cpu_seconds, priority  # noqa: E402

MIB, SMALL = 1 << 20, 4096
OURS, THEIRS = "Spate replicas=2", "GlusterFS replica 2"


class Mount:
    """A mount of the file system with the options that a user gets without any."""

    def __init__(self, fs, path):
        self.fs, self.path = fs, path
        os.mkdir(path)
        try:
            fs.run("--quiet", "--fs", fs.config, "mount", path)
            self.pids = [*fs.pids, peers.pid_of_mount(path)]
        except BaseException:
            self.end()
            raise

    def end(self):
        if peers.mounted(self.path):
            subprocess.run([self.fs.spate, "--quiet", "umount", self.path], env=self.fs.environment, check=False)
        if peers.mounted(self.path):
            subprocess.run(["fusermount3", "-u", "-z", self.path], check=False)


class Place:
    """One of the two file systems. `place.cell(...)` gives the calls a second, the median call in us, and the processor
    time of a call in seconds: of its servers and its mount."""

    def __init__(self, name, mounted):
        self.name, self.path, self.pids = name, os.path.join(mounted.path, "bench"), mounted.pids

    def cell(self, what, size, count, streams):
        before = cpu_seconds(self.pids)
        done = subprocess.run([sys.executable, os.path.join(HERE, "mount_client.py"), self.path, what, str(size), str(count), str(streams)],
                              check=True, stdout=subprocess.PIPE)
        found = json.loads(done.stdout)
        return found["calls"] / found["seconds"], found["median_us"], (cpu_seconds(self.pids) - before) / found["calls"]

    def clear(self):
        shutil.rmtree(self.path)


def work(options):
    """What is measured, in this order: what, bytes and number of the calls of each stream, number of streams."""
    for streams in (1, options.streams):
        yield "write", MIB, options.size, streams
        yield "read", MIB, options.size, streams
        yield "fsync", SMALL, options.calls, streams
        yield "create", SMALL, options.calls, streams


def line(what, size, streams, name, cells, said):
    rates, medians, cpus = zip(*cells)
    cpu = statistics.median(cpus)
    unit, used = ("MiB/s", "%.2f CPU s/GiB" % (cpu * (1 << 30) / size)) if size == MIB else ("per s", "%.0f CPU us a call" % (cpu * 1e6))
    rates = [rate * size / MIB if size == MIB else rate for rate in rates]
    return "mount: %-13s %4d KiB %d streams  %-19s: %7.0f %s (%.0f to %.0f), call %6.0f us, servers and mount %s  %s" % (
        "write + fsync" if what == "fsync" else what, size // 1024, streams, name, statistics.median(rates), unit, min(rates), max(rates), statistics.median(medians),
        used, said)


def measure(options, places):
    """{(what, bytes, streams): {place: cells}}. The places take turns; who begins changes each time."""
    found = {}
    for turn in range(options.runs):
        for place in places if turn % 2 == 0 else places[::-1]:
            for what, size, count, streams in work(options):
                if what == "write" and os.path.exists(place.path):
                    place.clear()
                found.setdefault((what, size, streams), {}).setdefault(place.name, []).append(place.cell(what, size, count, streams))
            place.clear()
    return found


def run(options, folder, report):
    with contextlib.ExitStack() as stack:
        fs = stack.enter_context(Servers(options, folder, "mounts", options.io))
        fs.run("--quiet", "--fs", fs.config, "policy", "set", "spate:/", "replicas=2")
        mount = Mount(fs, os.path.join(folder, "mount"))
        stack.callback(mount.end)
        places = [Place(OURS, mount)]
        gluster = peers.gluster(folder, bricks=2, replicas=2)
        if gluster is not None:
            stack.callback(gluster.end)
            places.insert(0, Place(THEIRS, gluster))
        for place in places:
            for pid in place.pids if options.priority else []:
                priority(pid)
            place.cell("create", SMALL, 100, 1)  # the first files of a file system take longer
            place.clear()
        found = measure(options, places)
        order = list(dict.fromkeys(what for what, *_ in found))
        for (what, size, streams), by_place in sorted(found.items(), key=lambda one: (order.index(one[0][0]), one[0][2])):
            rates = {name: statistics.median(cell[0] for cell in cells) for name, cells in by_place.items()}
            said = "%.2f of GlusterFS" % (rates[OURS] / rates[THEIRS]) if THEIRS in rates else ""
            for name, cells in by_place.items():
                print(line(what, size, streams, name, cells, said if name == OURS else ""), flush=True)
            report.append({"mount": what, "bytes": size, "streams": streams, "said": said,
                           "per s, call us, CPU s a call": by_place})
