#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares mounts with different options, and the null file system, by turns: many files in new directories, and trees.
delegations.py BIN [--runs N] [--options A;B] [--null PROGRAM] [--files N]: BIN has spate, spated and spate-mount."""
import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")


def cpu_of(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


class Place:
    def __init__(self, name, path, mount_pids, server_pids):
        self.name, self.path, self.mount_pids, self.server_pids = name, path, mount_pids, server_pids


def files(folder, count):
    """Yields what to measure, as (name, function, calls)."""
    names = [f"{folder}/f{number}" for number in range(count)]

    def create():
        for name in names:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))

    def opened():
        for name in names:
            os.close(os.open(name, os.O_RDONLY))

    def stat():
        for name in names:
            os.stat(name)

    def unlink():
        for name in names:
            os.unlink(name)

    return (("create+close", create), ("open+close", opened), ("stat", stat), ("unlink", unlink))


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def trees(folder, source, archive, clone):
    def untar():
        os.mkdir(f"{folder}/untar")
        run("tar", "-xf", archive, "-C", f"{folder}/untar")

    return (("untar", untar), ("cp -a", lambda: run("cp", "-a", source, f"{folder}/copied")),
            ("git clone", lambda: run("git", "clone", "-q", "--no-hardlinks", clone, f"{folder}/cloned")))


def measure(place, results, what, action, calls):
    mount, servers = cpu_of(place.mount_pids), cpu_of(place.server_pids)
    begin = time.monotonic()
    action()
    os.sync()
    fd = os.open(place.path, os.O_RDONLY)
    try:
        os.fsync(fd)  # what was queued counts
    except OSError:
        pass
    os.close(fd)
    seconds = time.monotonic() - begin
    told = results.setdefault(what, {}).setdefault(place.name, [])
    told.append((calls / seconds, cpu_of(place.mount_pids) - mount, cpu_of(place.server_pids) - servers))


def one_round(places, options, results, number, source, archive, clone):
    for place in places:
        base = f"{place.path}/run{number}"
        os.mkdir(base)
        for depth, sub in (("flat", "d"), ("five deep", "a/b/c/d/e")):
            os.makedirs(f"{base}/{sub}")
            for what, action in files(f"{base}/{sub}", options.files):
                measure(place, results, f"{what}, {depth}", action, options.files)
        if place.name != "null":
            for what, action in trees(base, source, archive, clone):
                measure(place, results, what, action, 1)


def print_table(places, results):
    print("| |", " | ".join(f"{place.name}: a second | cpu mount, servers (s)" for place in places), "|")
    print("|---" * (1 + 2 * len(places)) + "|")
    for what, told in results.items():
        cells = []
        for place in places:
            runs = told.get(place.name)
            if not runs:
                cells += ["", ""]
                continue
            rate, mount, servers = (statistics.median(column) for column in zip(*runs))
            cells += [f"{rate:,.0f}" if rate > 10 else f"{1 / rate:.2f} s each", f"{mount:.2f}, {servers:.2f}"]
        print("|", what, "|", " | ".join(cells), "|", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--options", default="nodelegate;gather,delegate")
    parser.add_argument("--null")
    parser.add_argument("--port", default="27700")
    parser.add_argument("--source", default="/usr/include/linux")
    parser.add_argument("--clone", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    options = parser.parse_args()
    folder = tempfile.mkdtemp(dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"))
    os.environ.update(HOME=folder, SPATE_FS=f"{folder}/fs", XDG_STATE_HOME=f"{folder}/state")
    spate = f"{options.bin}/spate"
    archive = f"{folder}/tree.tar"
    run("tar", "-cf", archive, "-C", os.path.dirname(options.source), os.path.basename(options.source))
    null, places = None, []
    try:
        run(spate, "up", "-q", "--dir", f"{folder}/fs", "--io", "2", "--port", options.port)
        servers = [int(open(f"{folder}/fs/run/server-{n}.pid").read().split()[0]) for n in (1, 2, 3)]
        for number, words in enumerate(options.options.split(";")):
            path = f"{folder}/m{number}"
            run(spate, "mount", "-p", path, "-o", words)
            told = subprocess.run([spate, "mount", "--status", path], check=True, capture_output=True, text=True).stdout
            pid = int(dict(line.split(" ", 1) for line in told.splitlines() if " " in line)["server"])
            os.mkdir(f"{path}/of{number}")
            places.append(Place(words, f"{path}/of{number}", [pid], servers))
        if options.null:
            os.mkdir(f"{folder}/null")
            null = subprocess.Popen([options.null, f"{folder}/null"])
            time.sleep(0.5)  # until it is mounted
            places.append(Place("null", f"{folder}/null", [null.pid], []))
        results = {}
        for number in range(options.runs):
            one_round(places, options, results, number, options.source, archive, options.clone)
        print_table(places, results)
    finally:
        for place in places:
            subprocess.run(["fusermount3", "-uz", os.path.dirname(place.path) if place.name != "null" else place.path], check=False)
        subprocess.run([spate, "down", "-q", "--force", "--dir", f"{folder}/fs"], check=False)
        if null:
            null.terminate()
        shutil.rmtree(folder, ignore_errors=True)


main()
