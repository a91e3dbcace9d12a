#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures every bar that Spate is held against, each next to its bare probe: bench/run bars.

Starts a file system as `spate up` does, runs the benches and the commands on it, prints one table and writes JSON.
"""
import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import Servers, log, priority  # noqa: E402 (after the path)

TREE = "/usr/include"


def row(figure, unit, value, probe=None, ratio=None, bar="-", met=None, cpu="-"):
    return {"figure": figure, "unit": unit, "value": value, "probe": probe, "ratio": ratio, "bar": bar, "met": met, "cpu": cpu}


def timed(command, **more):
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **more)
    return time.monotonic() - begin


def children_cpu():
    t = os.times()
    return t.children_user + t.children_system


def rows_of(report):
    """Returns the rows that a program of bench/ wrote as JSON."""
    rows = []
    for f in report["figures"]:
        def side(which):
            return f"{f[which]['client_cpu']['median']:.2f}+{f[which]['server_cpu']['median']:.2f}"
        cpu = f"{side('spate')} {f['cpu_unit']} (probe {side('raw')})"
        goal = f["goal"].replace("(met)", "").replace("(MISSED)", "").strip()
        rows.append(row(f["name"], f["unit"], f["spate"]["value"]["median"], f["raw"]["value"]["median"], f["ratio"]["median"],
                        goal, f["met"] if f["has_goal"] else None, cpu))
    return rows


def program(options, servers, folder, name, arguments):
    out = os.path.join(folder, name + ".json")
    command = [os.path.join(options.bin, name), "--config", servers.config, "--json", out, *arguments]
    log("+ " + name)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out) as f:
        return json.load(f)


def measure_copy(options, servers, folder):
    """Copies a tree of small files: `spate cp -r` and `cp -r` to the same kind of storage take turns."""
    local, ours, ratios, client, server = [], [], [], [], []
    tree_bytes = int(subprocess.run(["du", "-sb", TREE], capture_output=True, text=True, check=True).stdout.split()[0])
    target = os.path.join(folder, "tree")
    subprocess.run(["cp", "-r", TREE, target], check=True)  # warm-up: the tree is in the page cache afterwards
    for i in range(options.runs):
        shutil.rmtree(target)
        local.append(timed(["cp", "-r", TREE, target]))
        before = servers.cpu_seconds()
        mine = children_cpu()
        ours.append(timed([servers.spate, "-q", "cp", "-r", TREE, f"spate:/tree-{i}"], env=servers.environment))
        client.append(children_cpu() - mine)
        server.append(servers.cpu_seconds() - before)
        ratios.append(ours[-1] / local[-1])
    shutil.rmtree(target)
    gib = tree_bytes / 2**30
    ratio = statistics.median(ratios)
    cpu = f"{statistics.median(client) / gib:.1f}+{statistics.median(server) / gib:.1f} s/GiB"
    return row(f"cp -r {TREE}", "s", statistics.median(ours), statistics.median(local), ratio, "<= 3 x cp -r", ratio <= 3, cpu)


def measure_ls(options, servers):
    ours, local = [], []
    for _ in range(20):
        ours.append(timed([servers.spate, "ls", "spate:/tree-0"], env=servers.environment))
        local.append(timed(["ls", TREE]))
    value, probe = (statistics.median(x) * 1000 for x in (ours, local))
    return row("ls, start to end", "ms", value, probe, value / probe, "<= 15 ms", value <= 15)


def measure(options, folder):
    rows = []
    ups = []
    for i in range(3):
        with Servers(options, folder, "up") as servers:
            ups.append(servers.up_seconds)
            time.sleep(0.3)  # let the machine come to rest
            resting = servers.rss_mib()
    with Servers(options, folder, "fs") as servers:
        runs = ["--runs", str(options.runs)]
        io_pids = ",".join(str(p) for p in servers.pids[1:])
        data = program(options, servers, folder, "data_bench",
                       ["--servers", io_pids, "--probe-dir", folder, "--size", options.size, *runs])
        rows += rows_of(data)
        log("+ commands")
        commands = [measure_copy(options, servers, folder), measure_ls(options, servers)]
        names = program(options, servers, folder, "names_bench",
                        ["--server", str(servers.pids[0]), "--folder", folder, "--entries", str(options.entries),
                         "--operations", str(options.operations), *runs])
        rows += rows_of(names) + commands
        up = statistics.median(ups)
        rows.append(row("up, until it serves", "s", up, bar="<= 1 s", met=up <= 1))
        rows.append(row("a resting daemon, RSS", "MiB", resting, bar="<= 40 MiB", met=resting <= 40))
        time.sleep(6)  # programs give memory back only after some idle seconds
        loaded = servers.rss_mib()
        rows.append(row("... after all this, RSS", "MiB", loaded, bar="<= 40 MiB", met=loaded <= 40))
    return rows


def number(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def table(rows):
    head = ["figure", "unit", "Spate", "probe", "ratio", "bar", "", "CPU client+servers"]
    lines = [[r["figure"], r["unit"], number(r["value"]), number(r["probe"]), number(r["ratio"]), r["bar"],
              {True: "met", False: "MISSED", None: ""}[r["met"]], r["cpu"]] for r in rows]
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    right = {2, 3, 4}
    out = []
    for line in [head, *lines]:
        out.append("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip())
    return "\n".join(out)


def arguments():
    parser = argparse.ArgumentParser(prog="run bars", description="Every bar beside its bare probe, in one run.")
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", help="also write everything here")
    parser.add_argument("--runs", type=int, default=5, help="of each figure; the median is told (5)")
    parser.add_argument("--size", default="2GiB", help="of the large file")
    parser.add_argument("--entries", type=int, default=1_000_000, help="of the large directory")
    parser.add_argument("--operations", type=int, default=10_000, help="on names, a run")
    parser.add_argument("--storage", default=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"), help="where it all lies (/dev/shm)")
    parser.add_argument("--port", type=int, default=int(os.environ.get("SPATE_BENCH_PORT", "17400")))
    parser.add_argument("--no-priority", dest="priority", action="store_false",
                        help="do not ask the kernel to prefer the bench to other sessions' processes")
    return parser.parse_args()


def main():
    options = arguments()
    options.priority = options.priority and priority()
    begin = time.monotonic()
    folder = tempfile.mkdtemp(prefix="spate-bars-", dir=options.storage)
    try:
        rows = measure(options, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(rows))
    missed = [r["figure"] for r in rows if r["met"] is False]
    held = sum(1 for r in rows if r["met"] is not None)
    print(f"\n{held - len(missed)} of {held} bars met; {time.monotonic() - begin:.0f} s, {options.runs} runs each, meta.sync 100 ms, "
          f"storage {options.storage}, load average {os.getloadavg()[0]:.1f}")
    if options.json:
        about = {"kernel": platform.release(), "processors": os.cpu_count(), "runs": options.runs, "size": options.size,
                 "meta.sync": "100 ms", "storage": options.storage, "priority": options.priority,
                 "load_average": os.getloadavg()[0], "seconds": round(time.monotonic() - begin)}
        with open(options.json, "w") as f:
            json.dump({"about": about, "rows": rows}, f, indent=2)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
