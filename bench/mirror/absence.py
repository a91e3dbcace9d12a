# SPDX-License-Identifier: Apache-2.0
"""An io server is away for a minute while programs write and read mirrored files, and comes back; then its disk is emptied: bench/run mirror
--only absence. How long until every copy is whole again under the same load, and how many bytes the others sent it for that."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from servers import Servers

MIB = 1 << 20
COPIED = "spate_server_io_copied_to_members_bytes_total"
HOT, COLD = "x2", "cold"
AWAY = 4  # the io server
LONGEST = 900  # s until the bench gives up


class Load:
    """Programs that write and read for as long as the block runs. They write whole files of 64 MiB again and again, a MiB or 4 KiB a call."""

    def __init__(self, options, fs):
        self.command = [options.bin + "/mirror_client", fs.config]
        self.environment = fs.environment
        self.streams = options.streams
        self.children = []

    def __enter__(self):
        for folder, what, size in (("w", "write", 4096), ("r", "read", MIB)):
            self.children.append(subprocess.Popen([*self.command, HOT + "/" + folder, what, str(size), str(LONGEST), str(self.streams)],
                                                  env=self.environment, stdout=subprocess.DEVNULL))
        return self

    def __exit__(self, *_):
        for child in self.children:
            child.kill()
            child.wait()

    def check(self):
        if any(child.poll() is not None for child in self.children):
            sys.exit("a program of the load has failed")


def said(fs, *words):
    return subprocess.run([fs.spate, *words, "--fs", fs.config], env=fs.environment, check=False, stdout=subprocess.PIPE).stdout


def groups(fs):
    return next((row for row in json.loads(said(fs, "status", "--json") or b"[]") if "groups" in row), {"groups": 0, "degraded": 1})


def copied(fs, servers):
    """The bytes that these servers have sent to others which lacked them."""
    total = 0
    for server in servers:
        for line in said(fs, "stats", "--prometheus", str(server)).decode().splitlines():
            if line.startswith(COPIED):
                total += int(float(line.split()[-1]))
    return total


def used_bytes(fs, server):
    """What the server's datafiles hold."""
    total = 0
    for folder, _, names in os.walk("%s/server-%d/target-0/d" % (fs.dir, server)):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def wait_whole(fs, load, begin):
    while groups(fs)["degraded"]:
        load.check()
        if time.monotonic() - begin > LONGEST:
            sys.exit("the copies do not become whole: %s" % groups(fs))
        time.sleep(0.1)
    return time.monotonic() - begin


def share_of(fs, server, folder):
    """The bytes of the files of a folder that have a copy on the server, by their layouts. The strips are whole MiB, as regions are."""
    names = [line for line in said(fs, "ls", "spate:/" + folder).decode().split()]
    rows = json.loads(said(fs, "getstripe", "--json", *["spate:/%s/%s" % (folder, name) for name in names]))
    sizes = json.loads(said(fs, "stat", "--json", *["spate:/%s/%s" % (folder, name) for name in names]))
    total = 0
    for row, size in zip(rows, sizes):
        strips = -(-size["size"] // row["strip_bytes"])
        here = [any(target // 256 == server for target in slot) for slot in row["slots"]]
        total += row["strip_bytes"] * sum(here[i % len(here)] for i in range(strips))
    return total


def verdict(met):
    return "met" if met else "missed"


def absent(options, fs, load, report):
    others = [server for server in range(2, options.io + 2) if server != AWAY]
    os.kill(fs.pids[AWAY - 1], signal.SIGKILL)
    end = time.monotonic() + options.away
    while time.monotonic() < end:
        load.check()
        time.sleep(0.2)
    before = copied(fs, others)
    begin = time.monotonic()
    fs.start()  # what is missing
    seconds = wait_whole(fs, load, begin)
    moved = copied(fs, others) - before
    changed = share_of(fs, AWAY, HOT + "/w")
    kept = share_of(fs, AWAY, COLD)
    print("away for %d s, %d streams of writes and as many of reads: whole after %.1f s; goal %d s: %s" % (
        options.away, options.streams, seconds, options.away, verdict(seconds < options.away)))
    print("  sent to it %.0f MiB; its regions that changed %.0f MiB, and %.0f MiB did not; goal: no more than what changed: %s" % (
        moved / MIB, changed / MIB, kept / MIB, verdict(moved <= changed)), flush=True)
    report.append({"what": "absence", "away, s": options.away, "whole after, s": seconds, "sent": moved, "changed": changed, "unchanged": kept})


def wiped(options, fs, load, report):
    others = [server for server in range(2, options.io + 2) if server != AWAY]
    held = used_bytes(fs, AWAY)
    os.kill(fs.pids[AWAY - 1], signal.SIGKILL)
    time.sleep(3)  # until the others go on without it
    folder = "%s/server-%d" % (fs.dir, AWAY)
    shutil.rmtree(folder)
    os.mkdir(folder, 0o700)
    with open(folder + "/unformatted", "w"):
        pass  # the marker of a server that has no store yet
    before = copied(fs, others)
    begin = time.monotonic()
    fs.start()
    seconds = wait_whole(fs, load, begin)
    moved = copied(fs, others) - before
    rate = moved / seconds / MIB
    most = options.rebuild_rate * len(others)  # the rate is each server's
    print("emptied, held %.0f MiB: whole after %.1f s, %.0f MiB sent, %.0f MiB/s; flow.rebuild_rate %d MiB/s each of %d servers; goal: at least half of that, and no more: %s" % (
        held / MIB, seconds, moved / MIB, rate, options.rebuild_rate, len(others), verdict(most / 2 <= rate <= most * 1.05)), flush=True)
    report.append({"what": "emptied", "held": held, "whole after, s": seconds, "sent": moved, "MiB/s": rate, "limit, MiB/s": most})


def run(options, folder, report):
    with Servers(options, folder, "absence", options.io) as fs:
        fs.run("--quiet", "down", "--dir", fs.dir)
        fs.environment["SPATE_FLOW_REBUILD_RATE"] = "%d MiB" % options.rebuild_rate
        fs.start()
        for name in (HOT, COLD):
            fs.run("--quiet", "--fs", fs.config, "mkdir", "spate:/" + name)
            fs.run("--quiet", "--fs", fs.config, "policy", "set", "spate:/" + name, "replicas=2")
        for name in (HOT + "/w", HOT + "/r"):
            fs.run("--quiet", "--fs", fs.config, "mkdir", "spate:/" + name)
        subprocess.run([options.bin + "/mirror_client", fs.config, COLD, "write", str(MIB), "0.1", str(options.cold)], env=fs.environment, check=True,
                       stdout=subprocess.DEVNULL)
        with Load(options, fs) as load:
            time.sleep(20)  # the load, and the notes of what the files above have changed go
            wait_whole(fs, load, time.monotonic())
            absent(options, fs, load, report)
            time.sleep(20)  # the same
            wiped(options, fs, load, report)
