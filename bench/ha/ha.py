#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What several meta servers cost, and how long a fail-over takes: bench/run ha.

Creates a second with one meta server, with two and with three, by turns, by one client and by several. Then, with three, the longest
call of a client while the primary is killed, stopped (SIGSTOP) or ended in order.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

BARS = {("one", 2): 0.55, ("many", 2): 0.75}
LONGEST = {"killed": 4.0, "stopped": 4.0, "ended in order": 0.3}


class FileSystem:
    def __init__(self, options, metas, port):
        self.bin, self.metas = options.bin, metas
        self.root = tempfile.mkdtemp(prefix="spate-bench-", dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"))
        self.folder = self.root + "/fs"
        self.env = dict(os.environ, XDG_STATE_HOME=self.root + "/state", SPATE_FS=self.folder)
        self.folders = 0
        self.up = ["up", "-q", "--dir", self.folder, "--meta", str(metas), "--io", "1", "--port", str(port), "--tcp-only"]

    def __enter__(self):
        self.spate(*self.up)
        self.wait_whole()
        return self

    def __exit__(self, *_):
        subprocess.run([self.bin + "/spate", "down", "-q", "--force", "--dir", self.folder], env=self.env, check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def spate(self, *words):
        return subprocess.run([self.bin + "/spate", *words], env=self.env, check=True, stdout=subprocess.PIPE).stdout

    def parts(self):
        done = subprocess.run([self.bin + "/spate", "status", "--json"], env=self.env, check=False, stdout=subprocess.PIPE)
        return {row["server"]: (row["group"], row["pid"]) for row in json.loads(done.stdout or b"[]") if "group" in row}

    def wait_whole(self):
        end = time.monotonic() + 120
        while self.metas > 1 and sorted(part.split()[0] for part, _ in self.parts().values()) != ["backup"] * (self.metas - 1) + ["leads"]:
            if time.monotonic() > end:
                sys.exit("the meta servers do not get whole: %s" % self.parts())
            time.sleep(0.05)

    def primary(self):
        return next(pid for part, pid in self.parts().values() if part.startswith("leads"))

    def client(self, seconds):
        self.folders += 1
        return subprocess.Popen([self.bin + "/ha_client", self.folder + "/spate.toml", "d%d" % self.folders, str(seconds)], env=self.env,
                                stdout=subprocess.PIPE)


def result(client):
    out = client.communicate()[0]
    if client.returncode != 0:
        sys.exit("a client failed")
    return json.loads(out)


def rate(fs, clients, seconds):
    return sum(one["files"] / one["seconds"] for one in map(result, [fs.client(seconds) for _ in range(clients)]))


def creates(options, report):
    """Measures by turns, so that other load on the machine affects all alike."""
    found = {}
    with FileSystem(options, 1, options.port) as one, FileSystem(options, 2, options.port + 20) as two, FileSystem(options, 3, options.port + 40) as three:
        for _ in range(options.runs):
            for fs in (one, two, three):
                for name, clients in (("one", 1), ("many", options.clients)):
                    found.setdefault((name, fs.metas), []).append(rate(fs, clients, options.seconds))
    for (name, metas), rates in sorted(found.items()):
        middle = statistics.median(rates)
        ratio = middle / statistics.median(found[name, 1])
        bar = BARS.get((name, metas))
        print("%-5s client%s  %d meta: %8.0f creates/s (%.0f to %.0f)  %.2f of one meta server%s" % (
            name, " " if name == "one" else "s", metas, middle, min(rates), max(rates), ratio,
            "" if bar is None else "; bar %.2f: %s" % (bar, "met" if ratio >= bar else "missed")))
        report.append({"what": "creates/s", "clients": name, "meta": metas, "median": middle, "all": rates, "ratio": ratio, "bar": bar})


def disturbances():
    yield "killed", lambda pid: os.kill(pid, signal.SIGKILL), lambda pid: None
    yield "stopped", lambda pid: os.kill(pid, signal.SIGSTOP), lambda pid: os.kill(pid, signal.SIGCONT)
    yield "ended in order", lambda pid: os.kill(pid, signal.SIGTERM), lambda pid: None


def fail_over(options, report):
    with FileSystem(options, 3, options.port) as fs:
        for what, disturb, restore in disturbances():
            pauses = []
            for _ in range(options.runs):
                fs.wait_whole()
                pid = fs.primary()
                client = fs.client(8)
                time.sleep(1.5)  # creates run this long before the fault
                disturb(pid)
                pauses.append(result(client)["longest"])
                restore(pid)
                fs.spate(*fs.up)
            bar = LONGEST[what]
            print("primary %-15s longest call %.2f s (%.2f to %.2f); bar %.1f s: %s" % (
                what + ":", statistics.median(pauses), min(pauses), max(pauses), bar, "met" if max(pauses) <= bar else "missed"))
            report.append({"what": "longest call, s", "primary": what, "all": pauses, "bar": bar})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--port", type=int, default=17500)
    parser.add_argument("--json")
    options = parser.parse_args()
    if not os.environ.get("SPATE_ETCD") and not shutil.which("etcd"):
        sys.exit("bench/run ha needs etcd (Debian: etcd-server)")
    report = []
    creates(options, report)
    fail_over(options, report)
    if options.json:
        with open(options.json, "w") as f:
            json.dump(report, f, indent=2)


main()
