#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures 5 and 6 of the PVFS paper: clients write, then read, disjoint parts of one file; servers and clients are swept.

Small numbers on real processes, each in a network namespace of its own whose link is limited; the same and larger ones in the
simulation. One table, and JSON that bench/run draw makes the figure of. bench/run pvfs.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

REAL_SERVERS = [1, 2, 4]
REAL_CLIENTS = [1, 2, 4, 8]
SIM_SERVERS = [1, 2, 4, 8, 16, 32]
SIM_CLIENTS = [1, 2, 4, 8, 16, 32, 60]
STRIP = 64 * 1024
LINK_BITS = 100_000_000  # as the paper's Fast Ethernet
PAYLOAD = 1448 / 1514  # payload of TCP in a full frame: the simulation's links count payload only


def run(*command, check=True, **more):
    return subprocess.run(command, check=check, **more)


def trimmed_mean(values):
    """Returns the mean without the best and the worst value, as in the paper."""
    values = sorted(values)
    if len(values) > 2:
        values = values[1:-1]
    return sum(values) / len(values)


class Network:
    """Hosts, each a network namespace behind a link of its own, around a switch."""

    def __init__(self):
        self.prefix = f"spate{os.getpid()}"
        self.made = []

    def __enter__(self):
        self.switch = self.namespace("sw")
        self.inside(self.switch, "ip", "link", "add", "sw0", "type", "bridge")
        self.inside(self.switch, "ip", "link", "set", "sw0", "up")
        return self

    def __exit__(self, *unused):
        for name in reversed(self.made):
            run("ip", "netns", "del", name, check=False)

    def namespace(self, name):
        full = f"{self.prefix}-{name}"
        run("ip", "netns", "add", full)
        self.made.append(full)
        return full

    def inside(self, name, *command):
        run("ip", "netns", "exec", name, *command)

    def host(self, number, limited=True):
        """Creates the namespace of a host. Its address is 10.77.0.NUMBER."""
        name = self.namespace(f"h{number}")
        port = f"p{number}"
        run("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", self.switch)
        run("ip", "-n", self.switch, "link", "set", port, "master", "sw0", "up")
        run("ip", "-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        if limited:  # in both directions
            for where, device in ((name, "eth0"), (self.switch, port)):
                self.inside(where, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", str(LINK_BITS), "burst", "16kb",
                            "latency", "100ms")
        return name


class FileSystem:
    """One meta server on a fast link and io servers on limited links."""

    def __init__(self, options, network, folder, servers):
        self.options, self.network, self.folder, self.servers = options, network, os.path.join(folder, "fs"), servers
        self.state = folder
        self.daemons = []

    def __enter__(self):
        spate = os.path.join(self.options.bin, "spate")
        environment = dict(os.environ, XDG_STATE_HOME=self.state)
        run(spate, "-q", "up", "--dir", self.folder, "--io", str(self.servers), "--port", str(self.options.port), "--tcp-only", env=environment)
        run(spate, "-q", "down", "--dir", self.folder, env=environment)
        self.config = os.path.join(self.folder, "spate.toml")
        with open(self.config) as f:
            text = f.read()
        text = re.sub(r"tcp://127\.0\.0\.1:(\d+)", lambda m: f"tcp://10.77.0.{int(m[1]) - self.options.port + 1}:7400", text)
        with open(self.config, "w") as f:
            f.write(text)
        for server in range(1, self.servers + 2):
            host = self.network.host(server, limited=server > 1)
            log = open(os.path.join(self.folder, f"{server}.log"), "w")
            command = ["ip", "netns", "exec", host, os.path.join(self.options.bin, "spated"), "--config", self.config, "--server", str(server)]
            self.daemons.append(subprocess.Popen(command, stdout=log, stderr=log))
        time.sleep(0.5)  # shortens the wait; a client that comes earlier waits by itself
        return self

    def __exit__(self, *unused):
        for daemon in self.daemons:
            daemon.terminate()
        for daemon in self.daemons:
            daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def one_run(options, fs, hosts, path, each):
    """Returns (write, read) in bytes a second."""
    clients = []
    for i, host in enumerate(hosts):
        command = ["ip", "netns", "exec", host, os.path.join(options.bin, "pvfs_client"), fs.config, path, str(i * each), str(each),
                   str(fs.servers * STRIP)]
        clients.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1))
    rates = []
    for client in clients:
        if client.stdout.readline().strip() != "ready":
            raise RuntimeError("a client did not start")
    for phase in ("write", "read"):
        begin = time.monotonic()
        for client in clients:
            client.stdin.write(phase + "\n")
        for client in clients:
            if not client.stdout.readline().strip():
                raise RuntimeError(f"a client failed to {phase}")
        rates.append(each * len(clients) / (time.monotonic() - begin))
    for client in clients:
        client.stdin.close()
        if client.wait() != 0:
            raise RuntimeError("a client failed at the end")
    return rates


def measure_real(options, folder):
    rows = []
    for servers in REAL_SERVERS:
        with Network() as network, FileSystem(options, network, folder, servers) as fs:
            hosts = [network.host(100 + i) for i in range(max(REAL_CLIENTS))]
            for clients in REAL_CLIENTS:
                each = servers * options.real_bytes
                runs = [one_run(options, fs, hosts[:clients], f"/shared-{clients}-{i}", each) for i in range(options.runs)]
                rows.append({"servers": servers, "clients": clients, "write": trimmed_mean([r[0] for r in runs]),
                             "read": trimmed_mean([r[1] for r in runs])})
                print(f"real {servers} x {clients}", file=sys.stderr, flush=True)
    return rows


def simulate(options, servers, clients, per_server):
    def text(numbers):
        return ",".join(str(n) for n in numbers)
    rate = int(LINK_BITS / 8 * PAYLOAD)
    command = [os.path.join(options.bin, "pvfs_simulate"), text(servers), text(clients), str(per_server), str(rate), str(options.runs)]
    out = run(*command, capture_output=True, text=True).stdout
    cells = {}
    for line in out.splitlines():
        r = json.loads(line)
        cells.setdefault((r["servers"], r["clients"]), []).append(r)
    return [{"servers": s, "clients": c, "write": trimmed_mean([r["write"] for r in runs]), "read": trimmed_mean([r["read"] for r in runs])}
            for (s, c), runs in cells.items()]


def table(title, rows, what):
    servers = sorted({r["servers"] for r in rows})
    clients = sorted({r["clients"] for r in rows})
    value = {(r["servers"], r["clients"]): r[what] for r in rows}
    lines = [f"{title}, {what}, MB/s", "servers \\ clients" + "".join(f"{c:>8}" for c in clients)]
    lines += [f"{s:>17}" + "".join(f"{value[s, c] / 1e6:>8.1f}" for c in clients) for s in servers]
    return "\n".join(lines)


def compare(real, simulated):
    """Returns the largest relative difference between a real run and the simulation of the same cell."""
    value = {(r["servers"], r["clients"]): r for r in simulated}
    return {what: max(abs(r[what] / value[r["servers"], r["clients"]][what] - 1) for r in real) for what in ("write", "read")}


def shape(rows):
    """Returns the worst cell's share of the limit, which is the smaller one of what all clients' and all servers' links
    carry. With 1 the curve is a straight slope up to a plateau."""
    link = LINK_BITS / 8 * PAYLOAD
    return {what: min(r[what] / (min(r["servers"], r["clients"]) * link) for r in rows) for what in ("write", "read")}


def arguments():
    parser = argparse.ArgumentParser(prog="run pvfs", description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", help="write everything here")
    parser.add_argument("--runs", type=int, default=5, help="of each cell; the trimmed mean is told (5)")
    parser.add_argument("--real-bytes", type=int, default=1 << 20, help="of each client for each server, real processes (1 MiB)")
    parser.add_argument("--sim-bytes", type=int, default=128 << 10, help="the same in the large simulation (128 KiB; the paper's is 2 MB)")
    parser.add_argument("--no-real", dest="real", action="store_false", help="the simulation alone: needs no root")
    parser.add_argument("--storage", default=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"))
    parser.add_argument("--port", type=int, default=17600)
    return parser.parse_args()


def main():
    options = arguments()
    report = {"link_bits_per_second": LINK_BITS, "strip_bytes": STRIP, "runs": options.runs}
    real = []
    if options.real:
        folder = tempfile.mkdtemp(prefix="spate-pvfs-", dir=options.storage)
        try:
            real = measure_real(options, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        twin = simulate(options, REAL_SERVERS, REAL_CLIENTS, options.real_bytes)
        report.update(real=real, twin=twin, difference=compare(real, twin))
    large = simulate(options, SIM_SERVERS, SIM_CLIENTS, options.sim_bytes)
    report.update(simulation=large, shape=shape(large))
    for title, rows in (("Real processes", real), ("Simulation", large)):
        for what in ("write", "read"):
            if rows:
                print(table(title, rows, what) + "\n")
    if real:
        print("Real processes against the simulation of the same: at most {write:.0%} apart in writes, {read:.0%} in reads.".format(**report["difference"]))
    print("Every cell of the simulation reaches at least {write:.0%} (write) and {read:.0%} (read) of min(servers, clients) links."
          .format(**report["shape"]))
    if options.json:
        with open(options.json, "w") as f:
            json.dump(report, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
