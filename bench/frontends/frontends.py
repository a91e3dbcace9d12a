#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what unchanged programs get: compares the mount and the preload library with the native API and a null file
system. Run as bench/run frontends."""
import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import mount_bars  # noqa: E402 (after the path)
from peers import await_mount, pid_of_mount  # noqa: E402
from servers import Servers, log, priority  # noqa: E402

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = [4 * KIB << (2 * i) for i in range(7)]  # 4 KiB to 16 MiB
SEEKS = 2_000_000
STARTS = 60
MEMORY_CALLS = 2_000
MEMORY_RUNS = 25


class Frontend:
    """One way to reach the files: how frontends_program is started, on which folder, and which other processes'
    processor time counts."""

    def __init__(self, name, folder, prefix=(), native=None, pids=()):
        self.name, self.folder, self.prefix, self.native, self.pids = name, folder, list(prefix), native, list(pids)

    def run(self, options, environment, cases):
        command = [*self.prefix, os.path.join(options.bin, "frontends_program")]
        if self.native:
            command += ["--native", self.native]
        if self.pids:
            command += ["--pids", ",".join(str(p) for p in self.pids)]
        command += [self.folder, *(f"{what}:{size}:{count}" for what, size, count in cases)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


class Mounts:
    """Mounts the null file system and four mounts of Spate, and unmounts them at the end."""

    def __init__(self, options, servers, folder):
        self.options, self.servers = options, servers
        self.null, *self.ours = (os.path.join(folder, name) for name in ("null", "direct", "cached", "second", "kernel"))
        self.direct, self.cached, self.second, self.kernel = self.ours
        self.program = None

    def __enter__(self):
        for path in (self.null, *self.ours):
            os.mkdir(path)
        self.program = subprocess.Popen([os.path.join(self.options.bin, "null_fuse"), self.null])
        self.servers.run("mount", "-o", "cache=none", self.direct)
        chosen = ["-o", self.options.mount_options] if self.options.mount_options else []
        self.servers.run("mount", *chosen, self.cached)
        self.servers.run("mount", *chosen, self.second)
        self.servers.run("mount", "-o", "attr_cache=kernel", self.kernel)
        await_mount(self.null, self.program)
        return self

    def __exit__(self, *unused):
        for path in self.ours:
            subprocess.run([self.servers.spate, "umount", path], env=self.servers.environment, check=False)
        self.program.terminate()
        self.program.wait()

    def pid_of(self, path):
        """Returns the process that serves the mount, with priority."""
        pid = pid_of_mount(path)
        priority(pid)
        return pid


def median_of_runs(options, frontends, environment, cases):
    """Returns {frontend: [seconds, own processor seconds, the others'] for each case}. The front ends take turns."""
    told = {frontend.name: [[] for _ in cases] for frontend in frontends}
    for _ in range(options.runs):
        for frontend in frontends:
            for i, one in enumerate(frontend.run(options, environment, cases)):
                told[frontend.name][i].append((one["seconds"], one["cpu"], one["others"]))
    return {name: [tuple(statistics.median(column) for column in zip(*runs)) for runs in by_case] for name, by_case in told.items()}


def rate_row(name, unit, scale, value, reference, what, goal, met, cpu):
    return {"figure": name, "unit": unit, "value": value * scale, "reference": reference * scale, "of": what,
            "ratio": value / reference if reference else None, "goal": goal, "met": met, "cpu": cpu}


def data_rows(name, times, total):
    """Compares one data case of each front end with the time that the null file system and the native API would take
    one after the other."""
    gib = total / GIB
    speed = {frontend: total / seconds / 1e9 for frontend, (seconds, _, _) in times.items()}
    cpu = {frontend: (own + others) / gib for frontend, (_, own, others) in times.items()}
    both = 1 / (1 / speed["null"] + 1 / speed["native"])
    both_cpu = cpu["null"] + cpu["native"]
    told = f"{cpu['mount, direct']:.2f} s/GiB (null + native {both_cpu:.2f})"
    well = speed["mount, direct"] >= 0.85 * both and cpu["mount, direct"] <= 1.15 * both_cpu
    rows = [rate_row(f"{name}, mount", "GB/s", 1, speed["mount, direct"], both, "null and native in turn", ">= 0.85, cpu <= 1.15 x", well, told)]
    told = f"{cpu['preload']:.2f} s/GiB (native {cpu['native']:.2f})"
    goal = (">= 0.95", speed["preload"] >= 0.95 * speed["native"])
    rows.append(rate_row(f"{name}, preload", "GB/s", 1, speed["preload"], speed["native"], "native", *goal, told))
    return rows


def call_rows(name, times, count, goals):
    """Calls a second on the mount next to the null file system, and by how much a preloaded call takes longer than a
    native one."""
    def each(frontend, i=0):
        return times[frontend][i] / count * 1e6
    rate = {frontend: count / seconds for frontend, (seconds, _, _) in times.items()}
    of = goals.get("of", "null")
    well = {"ratio": rate["mount, direct"] >= goals.get("ratio", 0) * rate[of], "rate": rate["mount, direct"] >= goals.get("rate", 0)}
    told = f"{each('mount, direct', 1) + each('mount, direct', 2):.0f} us"
    rows = [rate_row(f"{name}, mount", "per s", 1, rate["mount, direct"], rate[of], of, goals["text"],
                     all(well.values()) if goals["text"] != "-" else None, told)]
    more = each("preload") - each("native")
    own = each("preload", 1) - each("native", 1)
    rows.append({"figure": f"{name}, preload more than native", "unit": "us", "value": more, "reference": each("native"), "of": "native",
                 "ratio": None, "goal": "-", "met": None, "cpu": f"{own:+.2f} us in the client"})
    return rows


def measure_others(options, servers, folder):
    """Measures calls on files outside of Spate, and the start of a program that does nothing."""
    local = Frontend("local", folder)
    preload = Frontend("preload", folder, prefix=[servers.spate, "run", "--"])
    seeks = [("seek", 0, SEEKS)]
    told = median_of_runs(options, [local, preload], servers.environment, seeks)
    plain, ours = (told[f][0][0] / SEEKS * 1e9 for f in ("local", "preload"))
    rows = [{"figure": "lseek on another file, preload", "unit": "ns", "value": ours - plain, "reference": plain, "of": "without", "ratio": None,
             "goal": "<= 50 ns more", "met": ours - plain <= 50, "cpu": "-"}]
    library = os.path.join(options.bin, "..", "lib", "libspate-preload.so")
    loaded = dict(servers.environment, LD_PRELOAD=library, SPATE_FS=servers.config)
    plain, ours = [], []
    for _ in range(STARTS):
        for environment, times in ((servers.environment, plain), (loaded, ours)):
            begin = time.perf_counter()
            subprocess.run(["/bin/true"], env=environment, check=True)
            times.append((time.perf_counter() - begin) * 1e3)
    plain, ours = statistics.median(plain), statistics.median(ours)
    rows.append({"figure": "/bin/true, preload", "unit": "ms", "value": ours - plain, "reference": plain, "of": "without", "ratio": None,
                 "goal": "<= 3 ms more", "met": ours - plain <= 3, "cpu": "-"})
    return rows


def measure_memory(options, folder):
    """Measures the extra cost of a preloaded call over a native one when network, servers and stores are memory of the
    program itself."""
    library = os.path.join(options.bin, "..", "lib", "memory")
    config = os.path.join(folder, "memory.toml")  # the file must exist, but may be empty
    with open(config, "w", encoding="ascii"): pass
    plain = {k: v for k, v in os.environ.items() if not k.startswith("SPATE_")}
    frontends = [(Frontend("native", "", native=config), dict(plain, LD_LIBRARY_PATH=library)),
             (Frontend("preload", "/spate"), dict(plain, LD_PRELOAD=os.path.join(library, "libspate-preload.so"), SPATE_FS=config))]
    names = {"write": "write 4 KiB", "random": "random 4 KiB", "create": "create and close", "stat": "stat", "unlink": "unlink"}
    cases = [(what, 4 * KIB if what in ("write", "random") else 0, MEMORY_CALLS) for what in names]
    times = {frontend.name: {what: [] for what in names} for frontend, _ in frontends}
    log("+ in memory")
    for _ in range(max(MEMORY_RUNS, options.runs)):
        for frontend, environment in frontends:
            for one in frontend.run(options, environment, cases):
                # Servers and client are this one process: its processor time is the cost of the calls, whatever else
                # the machine does.
                times[frontend.name][one["case"]].append((one["cpu"] / MEMORY_CALLS * 1e6, one["seconds"] / MEMORY_CALLS * 1e6))
    rows = []
    for what, name in names.items():
        # Takes the fastest of many runs, since other load can only add time.
        (native, native_wall), (preload, preload_wall) = ([min(column) for column in zip(*times[frontend][what])]
                                                          for frontend in ("native", "preload"))
        between = sorted(p[0] - n[0] for p, n in zip(times["preload"][what], times["native"][what]))
        more = preload - native
        rows.append({"figure": f"{name} in memory, preload more than native", "unit": "us", "value": more, "reference": native, "of": "native",
                     "ratio": None, "goal": "<= 1 us", "met": more <= 1,
                     "cpu": f"half of the pairs {between[len(between) // 4]:+.2f} to {between[-1 - len(between) // 4]:+.2f}; "
                            f"wall {preload_wall - native_wall:+.2f}"})
    return rows


def measure_project(options, servers, mounts, folder):
    """Measures a clone and a build of this project's lowest floors."""
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

    def build(at):
        environment = dict(servers.environment, CCACHE_DISABLE="1")
        begin = time.monotonic()
        for command in (["git", "clone", "-q", "--no-hardlinks", source, at],
                        ["cmake", "--preset", "release", "-G", "Unix Makefiles", "-S", at, "-B", at + "/out", "--log-level=WARNING"],
                        ["make", "-s", "-j2", "-C", at + "/out", "spate_base", "spate_config", "spate_dist", "spate_datatype"]):
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - begin
    if shutil.which("make") is None or not os.path.isdir(os.path.join(source, ".git")):
        log("no make or no repository: no clone and build")
        return []
    local = build(os.path.join(options.disk, os.path.basename(folder) + "-project"))
    shutil.rmtree(os.path.join(options.disk, os.path.basename(folder) + "-project"))
    ours = build(os.path.join(mounts.cached, "project"))
    return [{"figure": "git clone and make", "unit": "s", "value": ours, "reference": local, "of": "local disk", "ratio": ours / local,
             "goal": "<= 2 x", "met": ours <= 2 * local, "cpu": "-"}]


def measure_kernel(options, servers, mounts):
    """Measures stat of attributes that the kernel keeps, for which it asks nobody. The null file system's kernel asks
    each time."""
    null = Frontend("null", os.path.join(mounts.null, "k"), pids=[mounts.program.pid])
    mount = Frontend("mount", os.path.join(mounts.kernel, "k"), pids=[*servers.pids, mounts.pid_of(mounts.kernel)])
    for frontend in (null, mount):
        os.mkdir(frontend.folder)
    calls = options.operations
    cases = [(what, 0, calls) for what in ("create", "stat", "stat", "unlink")]
    told = median_of_runs(options, [null, mount], servers.environment, cases)
    rows = []
    for i, name in ((1, "first stat"), (2, "stat again")):
        rate = {frontend: calls / runs[i][0] for frontend, runs in told.items()}
        cpu = f"{sum(told['mount'][i][1:]) / calls * 1e6:.0f} us"
        rows.append(rate_row(f"{name}, attr_cache=kernel", "per s", 1, rate["mount"], rate["null"], "null", "-", None, cpu))
    return rows


def measure(options, servers, mounts, folder):
    direct, cached = mounts.pid_of(mounts.direct), mounts.pid_of(mounts.cached)
    for path in (mounts.direct, mounts.null):
        os.mkdir(os.path.join(path, "n"))
    native = Frontend("native", "/n", native=servers.config, pids=servers.pids)
    preload = Frontend("preload", "/spate/n", prefix=[servers.spate, "run", "--"], pids=servers.pids)
    on_mount = Frontend("mount, direct", os.path.join(mounts.direct, "n"), pids=[*servers.pids, direct])
    null = Frontend("null", os.path.join(mounts.null, "n"), pids=[mounts.program.pid])
    frontends = [null, native, preload, on_mount]
    count = options.size // MIB
    calls = options.operations
    cases = [("write", MIB, count), ("read", MIB, count), ("random", 4 * KIB, calls), ("create", 0, calls),
             ("stat", 0, calls), ("stat", 0, calls), ("unlink", 0, calls)]
    log("+ front ends")
    told = median_of_runs(options, frontends, servers.environment, cases)
    by_case = [{frontend: runs[i] for frontend, runs in told.items()} for i in range(len(cases))]
    rows = data_rows("write 1 MiB", by_case[0], options.size) + data_rows("read 1 MiB", by_case[1], options.size)
    rows += call_rows("random 4 KiB", by_case[2], calls, {"text": "-"})
    rows += call_rows("create and close", by_case[3], calls, {"rate": 8000, "text": ">= 8,000/s"})
    rows += call_rows("first stat", by_case[4], calls, {"text": "-"})
    rows += call_rows("stat again", by_case[5], calls, {"ratio": 0.5, "text": ">= 0.5"})
    rows += call_rows("unlink", by_case[6], calls, {"text": "-"})
    log("+ what the kernel keeps")
    rows += measure_kernel(options, servers, mounts)
    log("+ other files, starts")
    rows += measure_others(options, servers, folder)
    rows += measure_memory(options, folder)
    log("+ clone and make")
    rows += measure_project(options, servers, mounts, folder)
    log("+ sizes")
    on_cached = Frontend("mount, cached", os.path.join(mounts.cached, "n"), pids=[*servers.pids, cached])
    return rows, measure_sizes(options, servers, [native, preload, on_cached, on_mount])


def measure_sizes(options, servers, frontends):
    """Measures GB/s by request size, written and read, as ORFA's figures do: {work: {frontend: [of each size]}}."""
    figure = {"write": {f.name: [] for f in frontends}, "read": {f.name: [] for f in frontends}}
    for size in SIZES:
        total = min(options.size, max(16 * MIB, 4000 * size))
        cases = [(work, size, total // size) for work in figure]
        told = median_of_runs(options, frontends, servers.environment, cases)
        for i, work in enumerate(figure):
            for frontend in frontends:
                figure[work][frontend.name].append(total / told[frontend.name][i][0] / 1e9)
    return figure


def number(value):
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


def table(rows):
    head = ["figure", "unit", "Spate", "reference", "which", "ratio", "goal", "", "CPU"]
    lines = [[r["figure"], r["unit"], number(r["value"]), number(r["reference"]), r["of"], number(r["ratio"]), r["goal"],
              {True: "met", False: "MISSED", None: ""}[r["met"]], r["cpu"]] for r in rows]
    return aligned([head, *lines], {2, 3, 5})


def sizes_table(figure):
    lines = []
    for work, by_frontend in figure.items():
        for frontend, speeds in by_frontend.items():
            lines.append([f"{work}, {frontend}", *(f"{s:.2f}" for s in speeds)])
    head = ["GB/s", *(f"{s // KIB} KiB" if s < MIB else f"{s // MIB} MiB" for s in SIZES)]
    return aligned([head, *lines], set(range(1, len(head))))


def aligned(lines, right):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip() for line in lines)


def arguments():
    parser = argparse.ArgumentParser(prog="run frontends", description="Mount and preload library beside the native API and a null file system.")
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", help="also write everything here")
    parser.add_argument("--runs", type=int, default=5, help="of each figure; the median is told (5)")
    parser.add_argument("--size", type=int, default=512, help="of the file, MiB (512)")
    parser.add_argument("--operations", type=int, default=5_000, help="calls a run")
    parser.add_argument("--storage", default=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"), help="of the file system (/dev/shm)")
    parser.add_argument("--disk", default=os.environ.get("SPATE_BENCH_DISK", "/var/tmp"), help="a local disk, for clone and make (/var/tmp)")
    parser.add_argument("--quick", action="store_true",
                        help="only the mount beside null, passthrough and GlusterFS, three runs of less work, within twelve minutes")
    parser.add_argument("--files", type=int, default=60_000, help="small files for spate cp -r and rm -r (60,000)")
    parser.add_argument("--tree-files", type=int, default=25_000, help="files of /usr/include that are unpacked, copied and removed (25,000)")
    parser.add_argument("--memory", action="store_true", help="only what a preloaded call costs in memory, within a minute")
    parser.add_argument("--mount-options", default="", help="of the mount of the first table, such as nogather,nodelegate (none)")
    parser.add_argument("--port", type=int, default=int(os.environ.get("SPATE_BENCH_PORT", "17400")))
    parser.add_argument("--no-priority", dest="priority", action="store_false",
                        help="do not ask the kernel to prefer the bench to other sessions' processes")
    options = parser.parse_args()
    options.size *= MIB
    if options.quick:
        options.runs, options.operations, options.files = min(options.runs, 3), min(options.operations, 2_000), min(options.files, 20_000)
        options.size = min(options.size, 256 * MIB)
    options.names = options.operations
    options.tree_runs = 1 if options.quick else options.runs
    options.tree_files = min(options.tree_files, 2_000 if options.quick else options.tree_files)
    return options


def main():
    options = arguments()
    options.priority = options.priority and priority()
    begin = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing stays mounted after a signal
    folder = tempfile.mkdtemp(prefix="spate-frontends-", dir=options.storage)
    rows, figure, bars = [], {}, []
    try:
        if options.memory:
            rows = measure_memory(options, folder)
            return report(options, rows, figure, bars, begin)
        with Servers(options, folder, "fs", tcp_only=False) as servers:
            servers.environment["SPATE_FS"] = servers.config
            with Mounts(options, servers, folder) as mounts:
                bars = mount_bars.measure(options, servers, mounts, folder)
                if not options.quick:
                    rows, figure = measure(options, servers, mounts, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report(options, rows, figure, bars, begin)


def report(options, rows, figure, bars, begin):
    parts = [aligned(*mount_bars.table_lines(bars))] if bars else []
    parts += [table(rows)] if rows else []
    parts += [sizes_table(figure)] if figure else []
    print("\n\n".join(parts))
    held = [r["met"] for r in [*bars, *rows] if r["met"] is not None]
    print(f"\n{sum(held)} of {len(held)} goals met; {time.monotonic() - begin:.0f} s, {options.runs} runs each, load average {os.getloadavg()[0]:.1f}")
    if options.json:
        about = {"kernel": platform.release(), "processors": os.cpu_count(), "runs": options.runs, "bytes": options.size,
                 "load_average": os.getloadavg()[0]}
        with open(options.json, "w") as f:
            json.dump({"about": about, "bars": bars, "rows": rows, "sizes": {"bytes": SIZES, "gb_s": figure}}, f, indent=2)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
