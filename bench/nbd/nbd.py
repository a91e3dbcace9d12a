#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Block exports beside other NBD servers and beside bare probes, in the same run: bench/run nbd.

Random aligned requests on a file in memory; server on one core, client on another; medians over the runs, which take turns.
Peers that are not installed are named and left out, nbd-server also where a cell has several connections. Prints a table; --json FILE writes
every figure.
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import log_once  # noqa: E402 (after the path)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Server:
    """One NBD server on the file, at a Unix socket or a port. single: the server serves one client and ends."""

    def __init__(self, name, words, single=False):
        self.name, self.words, self.single = name, words, single


def servers(bench):
    """Returns every installed server. `words(where, file)` gives its command line; `where` is "unix:PATH" or a port
    number."""
    unix = lambda where: where[5:] if where.startswith("unix:") else None  # noqa: E731
    bin = bench.bin

    def spate(where, file):
        how = ["--unix", unix(where)] if unix(where) else ["--port", where]
        return [bin + "/spate-export", "-q", *how, *bench.export, "e=" + file]

    def nbdkit(where, file):
        return ["nbdkit", "-f", *(["-U", unix(where)] if unix(where) else ["-p", where, "-i", "127.0.0.1"]), "file", file]

    def nbd_server(splice):
        def words(where, file):
            config = os.path.join(bench.folder, "nbd-server-%d.conf" % splice)
            listen = "unixsock = %s\nport = %d\n" % (unix(where), bench.spare_port) if unix(where) else "listenaddr = 127.0.0.1\nport = %s\n" % where
            with open(config, "w") as f:
                f.write("[generic]\n%sallowlist = true\n[e]\nexportname = %s\n%s" % (listen, file, "splice = true\n" if splice else ""))
            return ["nbd-server", "-d", "-C", config]
        return words

    def qemu_nbd(where, file):
        how = ["-k", unix(where)] if unix(where) else ["-p", where, "-b", "127.0.0.1"]
        return ["qemu-nbd", "-f", "raw", "-t", "-e", "64", "--cache=writeback", "-x", "e", *how, file]

    def storage_daemon(where, file):
        address = "addr.type=unix,addr.path=" + unix(where) if unix(where) else "addr.type=inet,addr.host=127.0.0.1,addr.port=" + where
        return ["qemu-storage-daemon", "--blockdev", "driver=file,node-name=f,filename=" + file, "--nbd-server", address + ",max-connections=64",
                "--export", "type=nbd,id=e,node-name=f,writable=on,name=e"]

    def probe(how):
        return lambda where, file: [bin + "/nbd_probe", how, file, where]

    all = [Server("probe-pread", probe("pread")), Server("probe-sendfile", probe("sendfile")), Server("spate", spate), Server("nbdkit", nbdkit),
           Server("nbd-server", nbd_server(False), single=True), Server("nbd-server-splice", nbd_server(True), single=True), Server("qemu-nbd", qemu_nbd),
           Server("qemu-storage-daemon", storage_daemon)]
    for one in all:
        program = one.words("1", "/")[0]
        if not shutil.which(program):
            log_once(f"{one.name} is left out: there is no {os.path.basename(program)}")
    return [s for s in all if shutil.which(s.words("1", "/")[0])]


def cpu_seconds(pid):
    """Returns the processor time of all threads, to the nanosecond where the kernel reports it."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def children(pid):
    """Returns the children of the process and their children."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [pid] + [grand for child in f.read().split() for grand in children(int(child))]


class Bench:
    """Measures servers of one file: `file`, or a new one. also: processes whose processor time counts as the server's."""

    def __init__(self, options, folder, file=None):
        self.options, self.folder, self.bin = options, folder, options.bin
        self.export = ["--sendfile-from", str(options.sendfile_from)] if options.sendfile_from else []
        self.file = file or os.path.join(folder, "disk")
        self.port = options.port
        self.spare_port = options.port + 999
        self.also = []
        if file is None:
            with open(self.file, "wb") as f:
                block = os.urandom(MIB)
                for _ in range(options.size // MIB):
                    f.write(block)

    @contextlib.contextmanager
    def serving(self, server, transport="tcp"):
        """Runs a server and yields (process, where). Raises RuntimeError if it does not start."""
        self.port += 1
        where = "unix:" + os.path.join(self.folder, "s") if transport == "unix" else str(self.port)
        if where.startswith("unix:") and os.path.exists(where[5:]):
            os.unlink(where[5:])
        with open(os.path.join(self.folder, "log"), "ab") as log:
            process = subprocess.Popen(["taskset", "-c", str(self.options.server_core), *server.words(where, self.file)], stdout=log, stderr=log)
        try:
            if server.single:
                time.sleep(0.3)  # a connection that tests whether it listens would be its only client
            else:
                self.wait_for(where, process)
            yield process, where
        finally:
            for pid in reversed(children(process.pid)) if process.poll() is None else []:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()

    def client(self, where, cell, seconds, rate=0):
        """Starts a client. rate: its limit in bytes a second."""
        words = [where, cell["size"], cell["depth"], cell["connections"], seconds, cell["kind"], rate]
        return subprocess.Popen(["taskset", "-c", str(self.options.client_core), self.bin + "/nbd_client", *(str(word) for word in words)],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def measure(self, server, cell):
        """Makes one run. Returns None if the server cannot do it."""
        if server.single and cell["connections"] > 1:
            return None
        try:
            with self.serving(server, cell["transport"]) as (process, where):
                client = self.client(where, cell, self.options.seconds)
                try:
                    return self.watch(process, client)
                finally:
                    client.kill()
                    client.wait()
        except (RuntimeError, subprocess.TimeoutExpired) as why:
            log_once(f"{server.name} has no figure of {cell.get('name', 'this cell')}: {why}")
            return None

    def watch(self, process, client):
        time.sleep(0.03)  # connecting is not part of the measurement
        # A process that serves this client may end with it, so take its processor time shortly before the end.
        begun, start = {pid: cpu_seconds(pid) for pid in [*children(process.pid), *self.also]}, time.monotonic()
        time.sleep(self.options.seconds * 0.9)  # the measured time
        used, span = 0, time.monotonic() - start
        for pid in [*children(process.pid), *self.also]:
            used += cpu_seconds(pid) - begun.get(pid, 0)
        out, _ = client.communicate(timeout=self.options.seconds + 30)
        if client.returncode != 0:
            raise RuntimeError(f"its client ends with {client.returncode}")
        said = json.loads(out)
        rate = said["bytes"] / said["seconds"]
        return {"gb_s": rate / 1e9, "requests_s": said["requests"] / said["seconds"], "mean_us": said["mean_us"], "p50_us": said["p50_us"],
                "p99_us": said["p99_us"], "max_us": said["max_us"], "jitter_us": said["jitter_us"], "cpu_s_per_gib": used / (rate * span / GIB)}

    def wait_for(self, where, process):
        import socket
        for _ in range(1000):
            if process.poll() is not None:
                break
            try:
                probe = socket.socket(socket.AF_UNIX if where.startswith("unix:") else socket.AF_INET)
                with probe:
                    probe.settimeout(1)
                    probe.connect(where[5:] if where.startswith("unix:") else ("127.0.0.1", int(where)))
                    if probe.recv(1):
                        time.sleep(0.05)  # the server closes the connection of this probe
                        return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the server does not come up")


def cells(options):
    wanted = []
    for transport in ("tcp", "unix"):
        for size, depth in ((4 * KIB, 16), (64 * KIB, 16), (256 * KIB, 1), (256 * KIB, 16), (MIB, 16)):
            wanted.append({"kind": "read", "transport": transport, "size": size, "depth": depth, "connections": 1})
    wanted.append({"kind": "read", "transport": "tcp", "size": 128 * KIB, "depth": 1, "connections": 32})
    for size in (4 * KIB, 256 * KIB):
        wanted.append({"kind": "write", "transport": "tcp", "size": size, "depth": 16, "connections": 1})
    for cell in wanted:
        cell["name"] = "%s %s %d KiB depth %d%s" % (cell["kind"], cell["transport"], cell["size"] // KIB, cell["depth"],
                                                    " x %d" % cell["connections"] if cell["connections"] > 1 else "")
    return [cell for cell in wanted if options.only in cell["name"]]


def bars(cell, by_name):
    """Returns the bars of this cell: (text, figure, bar)."""
    ours = by_name.get("spate")
    probe = by_name.get("probe-pread" if cell["size"] < 64 * KIB else "probe-sendfile")
    peers = {name: f for name, f in by_name.items() if name != "spate" and not name.startswith("probe")}
    rows = []
    if ours and probe and cell["kind"] == "read":
        rows.append(("of the probe", ours["gb_s"] / probe["gb_s"], 0.8 if cell["size"] < 64 * KIB else 0.9))
        rows.append(("CPU of the probe's", ours["cpu_s_per_gib"] / probe["cpu_s_per_gib"], -1.2))
    if ours and peers:
        best = max(peers, key=lambda name: peers[name]["gb_s"])
        rows.append(("of " + best, ours["gb_s"] / peers[best]["gb_s"], 1.0))
        if cell["connections"] > 1:
            best = min(peers, key=lambda name: peers[name]["p99_us"])
            rows.append(("p99 of " + best + "'s", ours["p99_us"] / peers[best]["p99_us"], -0.5))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--size", type=int, default=GIB, help="of the file, bytes")
    parser.add_argument("--only", default="", help="cells whose name has this in it")
    parser.add_argument("--servers", default="", help="only these, separated by commas")
    parser.add_argument("--sendfile-from", type=int, default=0)
    parser.add_argument("--port", type=int, default=17500)
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    try:
        with open("/proc/self/autogroup", "w") as f:
            f.write("-15")  # real priority, if the kernel supports it and this process has the right
    except OSError:
        pass
    folder = tempfile.mkdtemp(prefix="spate-bench-nbd-", dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"))
    results = []
    try:
        bench = Bench(options, folder)
        some = [s for s in servers(bench) if not options.servers or s.name in options.servers.split(",")]
        for cell in cells(options):
            runs = {s.name: [] for s in some}
            for _ in range(options.runs):
                for server in some:
                    if cell["kind"] == "write" and server.name.startswith("probe"):
                        continue
                    figures = bench.measure(server, cell)
                    if figures:
                        runs[server.name].append(figures)
            by_name = {name: {key: statistics.median(r[key] for r in all) for key in all[0]} for name, all in runs.items() if all}
            results.append({"cell": cell, "servers": by_name, "runs": runs, "bars": bars(cell, by_name)})
            show(cell, by_name)
    finally:
        shutil.rmtree(folder)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(results, f, indent=1)
    return 0


def show(cell, by_name):
    print("\n" + cell["name"])
    for name, f in by_name.items():
        print("  %-20s %6.2f GB/s %8.0f/s  mean %6.0f p50 %6.0f p99 %6.0f us  server CPU %.3f s/GiB" % (
            name, f["gb_s"], f["requests_s"], f["mean_us"], f["p50_us"], f["p99_us"], f["cpu_s_per_gib"]))
    for text, figure, bar in bars(cell, by_name):
        good = figure >= bar if bar > 0 else figure <= -bar
        print("    %-28s %.2f  %s %.2f  %s" % (text, figure, ">=" if bar > 0 else "<=", abs(bar), "reached" if good else "MISSED"))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
