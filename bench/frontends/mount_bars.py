# SPDX-License-Identifier: Apache-2.0
"""Compares the mount with the null file system, libfuse's passthrough example over the same storage, and GlusterFS, by
turns in one run."""
import json
import os
import shutil
import statistics
import subprocess
import time

import peers
from servers import log

KIB, MIB = 1 << 10, 1 << 20
NAMES = ("create", "open", "stat", "unlink")
DEEP = os.path.join("a", "b", "c", "d", "e")
TREE = "/usr/include"
WORK = {  # what: (case, bytes a call, reference, share of its rate, least rate)
    "4 KiB written in order": ("new", 4 * KIB, "null", 0.8, 20_000),
    "4 KiB appended": ("append", 4 * KIB, "null", 0.8, 20_000),
    "64 KiB written, with fsync": ("new", 64 * KIB, "passthrough", 0.85, 0),
    "1 MiB written, with fsync": ("new", MIB, "passthrough", 0.85, 0),
    "1 MiB read, pages dropped": ("cold", MIB, "passthrough", 0.85, 0),
    "1 MiB read back": ("read", MIB, "passthrough, keeps pages", 0.9, 0),
}


class Place:
    """A folder of one file system, and the processes whose processor time counts in addition to the program's."""

    def __init__(self, name, path, pids):
        self.name, self.path, self.pids = name, path, pids


def program(options, place, folder, cases):
    path = os.path.join(place.path, folder)
    command = [os.path.join(options.bin, "frontends_program"), "--pids", ",".join(str(p) for p in place.pids), path, *cases]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def outcome(process):
    text, _ = process.communicate()
    if process.returncode != 0:
        raise SystemExit("frontends_program failed")
    return [json.loads(line) for line in text.splitlines()]


def sync(path):
    """Waits until everything that was done on the file system of this directory has reached it. Returns the seconds."""
    begin = time.monotonic()
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError:
        pass  # a file system that has no fsync of directories keeps nothing back
    finally:
        os.close(fd)
    return time.monotonic() - begin


class Bars:
    """Gathers rows in the order of the measurements: (figure, unit, {place: value}, cpu of ours, goal, met)."""

    def __init__(self, options, places, ours):
        self.options, self.places, self.ours = options, places, ours
        self.rows = []

    def by_turns(self, measure, places=None, runs=None):
        """Returns {place: the median of each column of measure(place)}. The places take turns."""
        told = {}
        for _ in range(runs or self.options.runs):
            for place in places or self.places:
                told.setdefault(place.name, []).append(measure(place))
        return {name: [statistics.median(column) for column in zip(*runs)] for name, runs in told.items()}

    def row(self, figure, unit, values, cpu, bar):
        """Adds a row. `bar`: (reference, share of its value, least value, more is better). None: no bar."""
        goal, met = "-", None
        ours = values.get(self.ours)
        if bar is not None and ours is not None:
            reference, share, least, more = bar
            parts = []
            if reference in values:
                parts.append((f"{share:g} x {reference}", ours >= share * values[reference] if more else ours <= share * values[reference]))
            if least:
                parts.append((f"{least:,g}", ours >= least if more else ours <= least))
            if "GlusterFS" in values:
                parts.append(("GlusterFS", ours >= values["GlusterFS"] if more else ours <= values["GlusterFS"]))
            goal = (">= " if more else "<= ") + ", ".join(text for text, _ in parts)
            met = all(held for _, held in parts) if parts else None
        self.rows.append({"figure": figure, "unit": unit, "values": values, "cpu": cpu, "goal": goal, "met": met})

    def names(self, folder, title, processes, shares):
        """Measures calls a second by one program, or by several in folders of their own."""
        count = self.options.names

        def measure(place):
            mine = [os.path.join(folder, f"p{i}") for i in range(processes)]
            for one in mine:
                os.makedirs(os.path.join(place.path, one), exist_ok=True)
            rates, cpus = [], []
            for what in NAMES:
                begun = [program(self.options, place, one, [f"{what}:0:{count}"]) for one in mine]
                told = [outcome(process)[0] for process in begun]
                rates.append(processes * count / (max(one["seconds"] for one in told) + sync(place.path)))
                cpus.append((sum(one["cpu"] for one in told) + max(one["others"] for one in told)) / (processes * count) * 1e6)
            return rates + cpus
        told = self.by_turns(measure)
        for i, what in enumerate(NAMES):
            label = {"create": "create + close", "open": "open + close"}.get(what, what)
            values = {name: columns[i] for name, columns in told.items()}
            self.row(f"{label}, {title}", "per s", values, f"{told[self.ours][len(NAMES) + i]:.0f} us", ("null", shares[what], 0, True))

    def alternating(self, others):
        """Two mounts create files in one directory by turns. Each also removes the files that the other created."""
        count = self.options.names // 4
        first, second = others
        folder = os.path.join(first.path, "alternating")
        os.makedirs(folder, exist_ok=True)
        paths = [folder, os.path.join(second.path, "alternating")]
        rates = []
        for _ in range(self.options.runs):
            begin = time.monotonic()
            for i in range(count):
                os.close(os.open(f"{paths[i % 2]}/{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            rates.append(count / (time.monotonic() - begin))
            for i in range(count):
                os.unlink(f"{paths[(i + 1) % 2]}/{i}")
        self.row("create + close, two mounts by turns", "per s", {self.ours: statistics.median(rates)}, "-", None)

    def data(self):
        for title, (case, size, reference, share, least) in WORK.items():
            count = self.options.size // size if size >= 64 * KIB else self.options.names * 4
            small = size == 4 * KIB
            scale = 1 if small else size / 1e9

            def measure(place, case=case, size=size, count=count):
                before = [] if case in ("new", "append") else [f"new:{size}:{count}"]
                told = outcome(program(self.options, place, "", [*before, f"{case}:{size}:{count}"]))[-1]
                return [count / told["seconds"], (told["cpu"] + told["others"]) / count]
            wanted = [p for p in self.places if p.name in (self.ours, reference, "GlusterFS")]
            told = self.by_turns(measure, wanted)
            values = {name: columns[0] * scale for name, columns in told.items()}
            cpu = told[self.ours][1]
            self.row(title, "per s" if small else "GB/s", values, f"{cpu * 1e6:.0f} us" if small else f"{cpu / size * (1 << 30):.2f} s/GiB",
                     (reference, share, least, True))

    def archive(self):
        """Makes an archive of the first files of the tree. Returns it and the number of files."""
        names = sorted(os.path.join(at, name) for at, _, names in os.walk(TREE) for name in names)[:self.options.tree_files]
        path = os.path.join(self.options.scratch, "tree.tar")
        subprocess.run(["tar", "-cf", path, "-C", "/", "-T", "-"], input="\n".join(name[1:] for name in names), text=True, check=True)
        return path, len(names)

    def trees(self):
        """Measures everyday work on trees, in seconds."""
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        archive, count = self.archive()
        work = [(f"untar {count:,} files of {TREE}", lambda at: ["tar", "-xf", archive, "-C", at]),
                ("cp -a of them", lambda at: ["cp", "-a", os.path.join(at, "usr"), os.path.join(at, "copy")]),
                ("rm -rf of both", lambda at: ["rm", "-rf", os.path.join(at, "usr"), os.path.join(at, "copy")])]
        if os.path.isdir(os.path.join(source, ".git")):
            work += [("git clone", lambda at: ["git", "clone", "-q", "--no-hardlinks", source, os.path.join(at, "clone")]),
                     ("git status", lambda at: ["git", "-C", os.path.join(at, "clone"), "status", "--short"])]

        def measure(place):
            at = os.path.join(place.path, "trees")
            shutil.rmtree(at, ignore_errors=True)
            os.mkdir(at)
            seconds = []
            for _, command in work:
                begin = time.monotonic()
                subprocess.run(command(at), check=True, stdout=subprocess.DEVNULL)
                sync(at)
                seconds.append(time.monotonic() - begin)
            shutil.rmtree(at)
            return seconds
        places = [p for p in self.places if p.name in (self.ours, "passthrough")]
        told = self.by_turns(measure, places, self.options.tree_runs)
        for i, (name, _) in enumerate(work):
            self.row(name, "s", {place: columns[i] for place, columns in told.items()}, "-", ("passthrough", 1.5, 0, False))

    def commands(self, servers):
        """Compares `spate cp -r` and `spate rm -r` of many small files with `cp -r` from and to the same storage."""
        files = self.options.files
        at = os.path.join(self.options.scratch, "small")
        for i in range(files):
            if i % 1000 == 0:
                os.makedirs(f"{at}/{i // 1000}")
            with open(f"{at}/{i // 1000}/{i}", "wb") as f:
                f.write(b"x" * (i * 37 % 9000))
        out = os.path.join(self.options.scratch, "out")

        def timed(command):
            begin = time.monotonic()
            subprocess.run(command, check=True, env=servers.environment, stdout=subprocess.DEVNULL)
            return time.monotonic() - begin

        def measure(place):
            if place != "spate":
                seconds = [timed(["cp", "-r", at, out])] * 2 + [timed(["rm", "-r", out])]
                return seconds
            seconds = [timed([servers.spate, "cp", "-r", at, "spate:/small"]), timed([servers.spate, "cp", "-r", "spate:/small", out])]
            shutil.rmtree(out)
            return seconds + [timed([servers.spate, "rm", "-r", "spate:/small"])]
        told = {"cp": [], "spate": []}
        for _ in range(self.options.runs):
            for who in told:
                told[who].append(measure(who))
        medians = {who: [statistics.median(column) for column in zip(*runs)] for who, runs in told.items()}
        scaled = 3 * files / 60_000
        for i, (name, bar) in enumerate((("spate cp -r in", ("cp and rm", 1, 0, False)), ("spate cp -r out", ("cp and rm", 1, 0, False)),
                                         ("spate rm -r", (None, 1, scaled, False)))):
            self.row(f"{name}, {files:,} files", "s", {self.ours: medians["spate"][i], "cp and rm": medians["cp"][i]}, "-", bar)


def ours_at(servers, mounts, name, path):
    return Place(name, path, [*servers.pids, mounts.pid_of(path)])


def measure(options, servers, mounts, folder):
    """Measures all rows. `mounts`: two mounts of Spate with the default options of a user, and the null file system."""
    options.scratch = os.path.join(folder, "scratch")
    os.makedirs(options.scratch)
    begun = [p for p in (peers.passthrough(folder, "auto"), peers.passthrough(folder, "always"), peers.gluster(folder)) if p is not None]
    try:
        ours = [ours_at(servers, mounts, "Spate", mounts.cached), ours_at(servers, mounts, "second", mounts.second)]
        places = [Place("null", mounts.null, [mounts.program.pid])]
        names = {"passthrough-auto": "passthrough", "passthrough-always": "passthrough, keeps pages", "gluster": "GlusterFS"}
        others = [Place(names[os.path.basename(p.path)], p.path, p.pids) for p in begun]
        by_name = {p.name: p for p in others}
        bars = Bars(options, places + [p for n, p in by_name.items() if n != "passthrough, keeps pages"] + [ours[0]], "Spate")
        one = {"create": 0.8, "open": 0.8, "stat": 0.8, "unlink": 0.6}
        log("+ names")
        bars.names("flat", "one directory deep", 1, one)
        bars.names(DEEP, "five deep", 1, one)
        bars.names("four", "four processes", 4, dict.fromkeys(NAMES, 0.55))
        bars.alternating(ours)
        log("+ data")
        bars.places = places + others + [ours[0]]
        bars.data()
        log("+ trees")
        bars.trees()
        log("+ cp and rm")
        bars.commands(servers)
        return bars.rows
    finally:
        for peer in begun:
            peer.end()
        shutil.rmtree(options.scratch, ignore_errors=True)


def table_lines(rows):
    """Formats each row as one line, for frontends.aligned()."""
    columns = ["Spate", "null", "passthrough", "passthrough, keeps pages", "GlusterFS", "cp and rm"]
    shown = [c for c in columns if any(c in row["values"] for row in rows)]

    def number(row, column):
        value = row["values"].get(column)
        if value is None:
            return ""
        return f"{value:.2f}" if value < 100 else f"{value:,.0f}"
    lines = [["figure", "unit", *shown, "CPU", "goal", ""]]
    for row in rows:
        met = {True: "met", False: "MISSED", None: ""}[row["met"]]
        lines.append([row["figure"], row["unit"], *(number(row, c) for c in shown), row["cpu"], row["goal"], met])
    return lines, set(range(2, 2 + len(shown)))
