# SPDX-License-Identifier: Apache-2.0
"""Measures block exports of a striped file on a sealed and on a bare file system, by turns."""
import json
import os
import signal
import socket
import statistics
import subprocess
import time

KIB, MIB = 1 << 10, 1 << 20
CELLS = [("read", 4 * KIB), ("write", 4 * KIB), ("read", 256 * KIB), ("write", 256 * KIB)]
DEPTH = 16


def cpu_seconds(pid):
    """Returns the processor time of all threads of the process, to the nanosecond."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


class Export:
    """A block export of a striped file of the site. It runs on the same processor as everything else."""

    def __init__(self, options, site):
        self.bin, self.site = options.bin, site
        self.socket = os.path.join(site.dir, "export")

    def __enter__(self):
        image = os.path.join(self.site.dir, "image")
        with open(image, "wb") as f:
            f.write(os.urandom(MIB))
        self.site.run("--fs", self.site.config, "cp", image, "spate:/image")
        command = [os.path.join(self.bin, "spate-export"), "-q", "--unix", self.socket, "--fs", self.site.config, "e=spate:/image"]
        self.process = subprocess.Popen(["taskset", "-c", "0", *command], env=self.site.environment)
        for pid in self.site.pids:
            subprocess.run(["taskset", "-a", "-p", "-c", "0", str(pid)], check=True, stdout=subprocess.DEVNULL)
        self.wait()
        return self

    def __exit__(self, *unused):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def wait(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(self.socket)
                    if probe.recv(1):
                        return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the export does not come up")

    def cpu_seconds(self):
        return sum(cpu_seconds(pid) for pid in [self.process.pid, *self.site.pids])

    def microseconds(self, kind, size, seconds):
        """Returns the processor time of client, export and servers for one request."""
        before = self.cpu_seconds()
        client = [os.path.join(self.bin, "nbd_client"), "unix:" + self.socket, str(size), str(DEPTH), "1", str(seconds), kind]
        out = subprocess.run(["taskset", "-c", "0", *client], check=True, stdout=subprocess.PIPE, text=True).stdout
        said = json.loads(out)
        return 1e6 * (self.cpu_seconds() - before + said["client_cpu"]) / said["requests"]


def compare(options, sealed, bare, seconds=0.2):
    rows = []
    with Export(options, sealed) as a, Export(options, bare) as b:
        for kind, size in CELLS:
            name = f"{kind} {size // KIB} KiB"
            if options.only not in name:
                continue
            both = []
            for turn in range(options.runs + 1):
                order = (a, b) if turn % 2 == 0 else (b, a)
                took = {one: one.microseconds(kind, size, seconds) for one in order}
                if turn > 0:  # the first one is the warm-up
                    both.append((took[a], took[b]))
            rows.append({"name": name, "sealed_us": statistics.median(x for x, _ in both), "bare_us": statistics.median(x for _, x in both),
                         "more_us": statistics.median(x - y for x, y in both), "turns": len(both)})
    return rows
