#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The experiments of the BMI paper, repeated: round trips (Figure 3), bandwidth (Figure 4) and the parallel read pattern
(Figure 5), over bmi, over plain epoll sockets, over MPICH and Open MPI and beside fi_pingpong, in the same run, pinned alike; what bulk data costs small
messages; and ORFA's Figure 3: what registering memory costs, and what a cache of registrations saves.

  bench/run bmi [figure3|figure4|figure5|ofi|figure3a|figure3b|priority|tls]... [--json FILE] [--runs N] [--vm]
  bench/run bmi --beside FOLDER [--pairs N] [--instructions]
"""
import argparse
import functools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import beside  # noqa: E402 (after the path)
import references  # noqa: E402 (after the path)
import registration  # noqa: E402 (after the path)
from figures import text  # noqa: E402

SMALL = [24, 64, 200, 400, 800, 1200]
LARGE = [1 << n for n in range(10, 21)]
STREAM_BYTES = 120_000_000
SHAPES = [(1, 1), (2, 2), (4, 4)]


class Programs:
    """Runs one measurement of one program. The result is None if the program is not available or fails."""

    def __init__(self, folder, source):
        self.folder = folder
        self.tests = os.path.join(source, "..", "..", "tests")
        self.machine = None  # the results from the virtual machine, measured once
        self.references = references.References(folder, os.path.join(source, "mpi_program.c"))

    @staticmethod
    def output(command, seconds=120, env=None):
        """Returns the program's output and the reason if there is none. Output also counts if the program hung
        afterwards, as MPICH over TCP sometimes does."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                              env=dict(os.environ, **(env or {}))) as process:
            try:
                told, complaints = process.communicate(timeout=seconds)
                return told, "exit %d, %s" % (process.returncode, references.last_line(complaints))
            except subprocess.TimeoutExpired as late:
                os.killpg(process.pid, 9)
                return (late.stdout or b"").decode(), "it did not end within %d s" % seconds

    def number(self, command, name=None, **more):
        told, why = self.output(command, **more)
        try:
            return float(told.split()[0])
        except (IndexError, ValueError):
            references.say("%s: no figure: %s" % (name or os.path.basename(command[0]), why))
            return None

    def bmi(self, **plan):
        return self.number([os.path.join(self.folder, "bmi_program"), *words(plan)])

    def raw(self, **plan):
        return self.number([os.path.join(self.folder, "raw_program"), *words(plan)])

    def memory(self, **plan):
        return self.number([os.path.join(self.folder, "memory_program"), *words(plan)])

    def mpi(self, name, network, ranks=2, **plan):
        found = self.references.command(name, network, ranks)
        if found is None:
            return None
        command, env = found
        return self.number([*command, *words(plan)], name="%s %s, %s" % (name, network, " ".join(words(plan))), seconds=30, env=env)

    def pingpong(self, provider, size, count):
        """Runs libfabric's own bench over one provider. Returns (microseconds a round trip, bytes a second)."""
        # Run both ends in one session, as the other programs do: the kernel divides processor time by sessions.
        script = """
        pingpong="fi_pingpong -p $0 -e rdm -I $1 -S $2"
        taskset -c 0 $pingpong -B $3 >/dev/null 2>&1 &
        for try in 1 2 3 4 5 6 7 8 9 10; do  # until it listens
          sleep 0.3
          taskset -c 1 $pingpong -P $3 127.0.0.1 && break
          kill -0 $! 2>/dev/null || break
        done
        kill $! 2>/dev/null"""
        port = str(20000 + os.getpid() % 20000)
        told, why = self.output(["sh", "-c", script, provider, str(count), str(size), port], seconds=60)
        rows = [line.split() for line in told.splitlines() if line and line[0].isdigit()]
        try:
            return 2 * float(rows[-1][6]), float(rows[-1][5]) * 1e6
        except (IndexError, ValueError):
            references.say("fi_pingpong %s: no figure: %s" % (provider, why if shutil.which("fi_pingpong") else "apt-get install libfabric-bin"))
            return None


def words(plan):
    return ["%s=%s" % item for item in plan.items()]


def figure3(programs, runs):
    series = {
        "sockets, asleep": lambda size: programs.raw(size=size),
        "bmi tcp, asleep": lambda size: programs.bmi(size=size),
        "sockets, polling": lambda size: programs.raw(size=size, poll=1),
        "bmi tcp, polling": lambda size: programs.bmi(size=size, poll=1),
        "bmi tcp, polling, mem_alloc": lambda size: programs.bmi(size=size, poll=1, allocated=1),
        "bare eventfds, asleep": lambda size: programs.memory(size=size),
        "bmi shm, asleep": lambda size: programs.bmi(network="shm", size=size),
        "bare memory, polling": lambda size: programs.memory(size=size, poll=1, count=100000),
        "bmi shm, polling": lambda size: programs.bmi(network="shm", size=size, poll=1, count=100000),
        "bmi shm, polling, mem_alloc": lambda size: programs.bmi(network="shm", size=size, poll=1, count=100000, allocated=1),
    }
    for name in references.KNOWN:
        series[name + " tcp, polling"] = lambda size, name=name: programs.mpi(name, "tcp", size=size)
        series[name + " shm, polling"] = lambda size, name=name: programs.mpi(name, "shm", size=size, count=100000)
    return table("Figure 3: round trip", "us", "bytes", SMALL, series, runs, 1)


def figure4(programs, runs):
    def stream(size):
        return {"pattern": "stream", "size": size, "count": STREAM_BYTES // size}

    series = {
        "sockets": lambda size: programs.raw(**stream(size)),
        "bmi tcp": lambda size: programs.bmi(**stream(size)),
        "bare ring, polling": lambda size: programs.memory(**stream(size)),
        "bmi shm": lambda size: programs.bmi(network="shm", **stream(size)),
        "bmi shm, polling": lambda size: programs.bmi(network="shm", poll=1, **stream(size)),
        "bmi shm, polling, mem_alloc": lambda size: programs.bmi(network="shm", allocated=1, poll=1, **stream(size)),
    }
    for name in references.KNOWN:
        series[name + " tcp"] = lambda size, name=name: programs.mpi(name, "tcp", **stream(size))
        series[name + " shm"] = lambda size, name=name: programs.mpi(name, "shm", **stream(size))
    return table("Figure 4: bandwidth, 120 MB, all posted first", "GB/s", "bytes a message", LARGE, series, runs, 1e-9)


def tls(programs, runs):
    """The same measurements over tcp and tcp+tls, by turns. The processor time is the sum of both processes."""
    key = os.path.join(programs.folder, "key")
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
        f.write(os.urandom(32).hex() + "\n")
    os.environ["SPATE_BENCH_KEY"] = key
    total = 2_000_000_000
    rows = [("round trip of 64 B, asleep, us", {"size": 64}, 1), ("round trip of 64 B, polling, us", {"size": 64, "poll": 1}, 1)]
    rows += [("stream of %s, GB/s" % name, {"pattern": "stream", "size": size, "count": total // size}, 1e-9)
             for name, size in (("64 KiB", 1 << 16), ("1 MiB", 1 << 20))]
    result = {"title": "TLS beside plain TCP", "unit": "", "x": "", "points": [], "series": {"tcp": [], "tcp+tls": []}}
    for name, plan, scale in rows:
        print("tls", name, "...", file=sys.stderr)
        told = {network: [] for network in result["series"]}
        used = {network: [] for network in result["series"]}
        for _ in range(runs):
            for network in told:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                value = programs.bmi(network=network, **plan)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                if value is None:
                    continue
                told[network].append(value * scale)
                used[network].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        result["points"].append(name)
        if "pattern" in plan:
            result["points"].append(name.replace("GB/s", "processor s/GiB"))
        for network, values in result["series"].items():
            values.append(statistics.median(told[network]) if told[network] else None)
            if "pattern" in plan:
                values.append(statistics.median(used[network]) / total * (1 << 30) if used[network] else None)
    return result


def figure5(programs, runs):
    def read(shape):
        return {"pattern": "read", "servers": shape[0], "clients": shape[1]}

    series = {
        "sockets": lambda shape: programs.raw(**read(shape)),
        "bmi tcp": lambda shape: programs.bmi(**read(shape)),
        "bmi shm": lambda shape: programs.bmi(network="shm", **read(shape)),
    }
    for name in references.KNOWN:
        series[name + " tcp"] = lambda shape, name=name: programs.mpi(name, "tcp", ranks=sum(shape), **read(shape))
        series[name + " shm"] = lambda shape, name=name: programs.mpi(name, "shm", ranks=sum(shape), **read(shape))
    return table("Figure 5: parallel read, 10 MB a pair, over the slowest client", "GB/s", "servers x clients", SHAPES, series,
                 runs, 1e-9)


def ofi(programs, runs):
    """At 64 bytes a round trip in us, at 1 MiB GB/s in both directions. fi_pingpong sends one message at a time, so bmi
    does the same here."""
    def trip(network, size):
        count = 10000 if size < 65536 else 1000
        value = programs.bmi(network=network, size=size, count=count, poll=1)
        return value if value is None else value if size < 65536 else 2 * size / value * 1e-3

    def ping(provider, size):
        value = programs.pingpong(provider, size, 10000 if size < 65536 else 1000)
        return value if value is None else value[0] if size < 65536 else value[1] * 1e-9

    series = {
        "fi_pingpong tcp": lambda size: ping("tcp;ofi_rxm", size),
        "bmi ofi+tcp": lambda size: trip("ofi+tcp", size),
        "fi_pingpong shm": lambda size: ping("shm", size),
        "bmi ofi+shm": lambda size: trip("ofi+shm", size),
    }
    return table("libfabric: 64 B round trip in us, 1 MiB ping-pong in GB/s", "", "bytes", [64, 1 << 20], series, runs, 1)


def priority(programs, runs):
    """Measures control messages while bulk data fills the line. The bar: at most three times as slow, plus one
    scheduling quantum."""
    def plan(load):
        return {"pattern": "priority", "size": 64, "count": 5000, "load": load}

    # Measures two plain sockets that send 64 KiB of bulk data between two looks at the control socket: the limit of
    # this machine and its scheduler.
    series = {"sockets": lambda load: programs.raw(**plan(load))}
    for network in ("tcp", "shm", "ofi+tcp", "ofi+shm"):
        series[network] = lambda load, network=network: programs.bmi(network=network, **plan(load))
    return table("Priority: p99 of a 64 B round trip", "us", "bulk messages of 1 MiB under way", [0, 8], series, runs, 1)


def figure3a(programs, runs):
    """Microseconds of registration and deregistration (fi_mr_reg()), next to a copy."""
    return registering("ORFA Figure 3(a): registering and deregistering, and copying", "us", registration.COSTS, programs, runs, 1)


def figure3b(programs, runs):
    """Sends one request of 25 bytes at a time and receives the answer."""
    return registering("ORFA Figure 3(b): remote reads", "GB/s", registration.READS, programs, runs, 1e-9)


def registering(title, unit, names, programs, runs, scale):
    result = {"title": title, "unit": unit, "x": "bytes", "points": [str(size) for size in registration.SIZES], "series": {}}
    program = os.path.join(programs.folder, "registration_program")
    if not os.path.exists(program):
        print("built without libfabric-dev: these columns stay empty", file=sys.stderr)
    parts = {}
    for provider, url in (("tcp", "ofi+tcp://127.0.0.1:0"), ("shm", "ofi+shm://*")):
        print(title.split(":")[0], provider, "...", file=sys.stderr)
        parts[provider] = registration.measure(program, names, url, runs)
    if programs.machine is not None:
        parts["rdma_rxe"] = programs.machine()[names is registration.READS]
    for provider, series in parts.items():
        result.setdefault("panels", {})[provider] = [provider + ", " + name for name in series]
        for name, values in series.items():
            result["series"][provider + ", " + name] = [value if value is None else value * scale for value in values]
    return result


def table(title, unit, x_name, points, series, runs, scale):
    """Measures the series by turns, so that other load on the machine affects all alike."""
    result = {"title": title, "unit": unit, "x": x_name, "points": [name_of(p) for p in points],
              "series": {name: [] for name in series}, "panels": panels_of(series)}
    for point in points:
        print(title.split(":")[0], name_of(point), "...", file=sys.stderr)
        told = {name: [] for name in series}
        for _ in range(runs):
            for name, measure in series.items():
                told[name].append(measure(point))
        for name, values in told.items():
            good = [value for value in values if value is not None]
            result["series"][name].append(statistics.median(good) * scale if good else None)
    return result


def panels_of(names):
    """Returns {panel: names}. Networks of very different speed get separate panels, side by side."""
    found = {"TCP": [], "shared memory": []}
    for name in names:
        found["shared memory" if any(word in name for word in ("shm", "memory", "ring", "eventfds")) else "TCP"].append(name)
    return {title: some for title, some in found.items() if some}


def name_of(point):
    return "%dx%d" % point if isinstance(point, tuple) else str(point)


EXPERIMENTS = {"figure3": figure3, "figure4": figure4, "figure5": figure5, "ofi": ofi, "figure3a": figure3a,
               "figure3b": figure3b, "priority": priority, "tls": tls}


def main():
    parser = argparse.ArgumentParser(prog="run bmi", description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("what", nargs="*", choices=[[], *EXPERIMENTS], default=[], help="all of them without a name")
    parser.add_argument("--json", help="write everything here; bench/run draw makes drawings of it")
    parser.add_argument("--runs", type=int, default=5, help="of each cell; the median is told (5)")
    parser.add_argument("--vm", action="store_true", help="figure3a and figure3b over RDMA in software, too, in a virtual machine")
    parser.add_argument("--beside", metavar="FOLDER", help="bmi alone, by turns with the programs of an older build there (20 pairs, eight minutes)")
    parser.add_argument("--pairs", type=int, default=20, help="with --beside: of each figure (20)")
    parser.add_argument("--instructions", action="store_true", help="with --beside: instructions a message instead, by callgrind")
    options = parser.parse_args()
    if options.beside and options.instructions:
        return beside.count_instructions(options.bin, options.beside)
    if options.beside:
        return 1 if beside.turns(options.bin, options.beside, options.pairs) else 0
    with tempfile.TemporaryDirectory(prefix="spate-bmi-") as folder:
        for program in ("bmi_program", "raw_program", "memory_program", "registration_program", "libspate-bmi-ofi.so", "libspate-tls.so"):
            if os.path.exists(os.path.join(options.bin, program)):
                os.symlink(os.path.join(os.path.abspath(options.bin), program), os.path.join(folder, program))
        programs = Programs(folder, os.path.dirname(os.path.abspath(__file__)))
        if options.vm:
            programs.machine = functools.cache(lambda: registration.in_machine(options.bin, options.runs, programs.tests))
        results = {}
        for name in options.what or EXPERIMENTS:
            results[name] = EXPERIMENTS[name](programs, options.runs)
            print(text(results[name]), flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)


sys.exit(main())
