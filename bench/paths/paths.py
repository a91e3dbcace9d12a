#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data paths beside each other and beside bare probes: bench/run paths. See README.md."""
import argparse
import json
import os
import platform
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def busy_seconds(pid):
    """On the processor so far, all threads, io_uring's among them."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def prefer(pid="self"):
    """Before the processes of other sessions, where the kernel has that and we may: probes and servers alike."""
    try:
        with open("/proc/%s/autogroup" % pid, "w") as f:
            f.write("-15")
    except OSError:
        pass


class Server:
    def __init__(self, options, parent):
        self.options, self.root = options, tempfile.mkdtemp(prefix="spate-paths-", dir=parent)
        self.dir = os.path.join(self.root, "fs")
        self.env = dict(os.environ, XDG_STATE_HOME=os.path.join(self.root, "state"), SPATE_FLOW_BYPASS="write",
                        SPATE_CLIENT_BYPASS="write")

    def spate(self, *args):
        subprocess.run([os.path.join(self.options.bin, "spate"), "--quiet", *args], env=self.env, check=True)

    def __enter__(self):
        up = ["up", "--dir", self.dir, "--io", "1", "--port", str(self.options.port)]
        self.spate(*up)
        self.spate("down", "--dir", self.dir)
        with open(self.dir + "/spate.toml") as f:
            self.tcp = f.read()
        numbers = iter(range(9))
        self.shm = re.sub(r'urls = \["(tcp://[^"]*)"\]', lambda m: 'urls = ["shm://%s/s%d", "%s"]' % (self.root, next(numbers), m.group(1)), self.tcp)
        self.write_config(self.shm)
        self.spate(*up)
        with open(self.dir + "/run/server-2.pid") as f:
            self.pid = int(f.read().split()[0])
        for name in os.listdir(self.dir + "/run"):
            if name.endswith(".pid"):
                with open(self.dir + "/run/" + name) as f:
                    prefer(int(f.read().split()[0]))
        return self

    def __exit__(self, *unused):
        self.spate("down", "--dir", self.dir)
        shutil.rmtree(self.root, ignore_errors=True)

    def write_config(self, text):
        for name, one in (("spate.toml", self.shm), ("tcp.toml", self.tcp)):
            with open(os.path.join(self.dir, name), "w") as f:
                f.write(one)

    def datafile(self):
        found = [os.path.join(at, name) for at, _, names in os.walk(self.dir + "/server-2/target-0/d") for name in names]
        return max(found, key=os.path.getsize)

    def empty_cache(self):
        subprocess.run(["sync"], check=True)
        for at, _, names in os.walk(self.dir + "/server-2/target-0/d"):
            for name in names:
                fd = os.open(os.path.join(at, name), os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def run(self, path, work, request):
        """One pass: GB/s, and processor seconds a GiB of client and server."""
        config = os.path.join(self.dir, "spate.toml" if path == "bypass" else "tcp.toml")
        depth = 1 if path == "bypass" else self.options.depth
        client = subprocess.Popen([os.path.join(self.options.bin, "paths_client"), config, "/f", work, str(request), str(depth),
                                   str(self.options.size), path], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if client.stdout.readline().strip() != "go":
            raise SystemExit("paths_client failed")
        before = busy_seconds(self.pid)
        client.stdin.write("\n")
        client.stdin.flush()
        told = json.loads(client.stdout.readline())
        server = busy_seconds(self.pid) - before
        client.stdin.write("\n")
        client.stdin.flush()
        if client.wait() != 0:
            raise SystemExit("paths_client failed")
        if path == "bypass" and told["bypassed"] < told["bytes"]:
            raise SystemExit("not all of it went past the server")
        gib = told["bytes"] / GIB
        return {"gb_s": told["bytes"] / told["seconds"] / 1e9, "client": told["cpu"] / gib, "server": server / gib, "p99_us": told["p99_us"]}


def probe_local(file, work, request, size):
    """pread or pwrite of the same file, one thread."""
    fd = os.open(file, os.O_RDWR)
    buffer = bytearray(request)
    before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    for offset in range(0, size, request):
        os.preadv(fd, [buffer], offset) if work == "read" else os.pwritev(fd, [buffer], offset)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
    os.close(fd)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"gb_s": size / seconds / 1e9, "client": used / (size / GIB), "server": 0.0}


def probe_sendfile(file, request, size):
    """The file by sendfile over one TCP connection, into one buffer; a forked process at the other end."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        peer = socket.create_connection(listener.getsockname())
        buffer, got = bytearray(request), 0
        begin = time.process_time()
        while got < size:
            n = peer.recv_into(buffer)
            if n == 0:
                break
            got += n
        peer.send(b"%.6f" % (time.process_time() - begin))
        os._exit(0)
    connection, _ = listener.accept()
    fd = os.open(file, os.O_RDONLY)
    before, begin = time.thread_time(), time.perf_counter()
    offset = 0
    while offset < size:
        offset += os.sendfile(connection.fileno(), fd, offset, min(request, size - offset))
    server = time.thread_time() - before
    receiver = float(connection.recv(64))
    seconds = time.perf_counter() - begin
    os.waitpid(child, 0)
    os.close(fd)
    gib = size / GIB
    return {"gb_s": size / seconds / 1e9, "client": receiver / gib, "server": server / gib}


def median(rows):
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def measure(options, name, parent, cells):
    on_disk = name == "disk"
    with Server(options, parent) as server:
        for request in options.requests:
            server.run("buffered", "write", request)
            for work in ("read", "write"):
                paths = ["buffered", "cached", "direct", "bypass"] if work == "read" else ["buffered", "direct", "bypass"]
                if not on_disk:
                    paths.remove("direct")
                rows = {path: [] for path in paths + ["probe local"] + (["probe sendfile"] if work == "read" else [])}
                for _ in range(options.runs):
                    for path, into in rows.items():
                        if on_disk:
                            server.empty_cache()
                        if path == "probe local":
                            into.append(probe_local(server.datafile(), work, request, options.size))
                        elif path == "probe sendfile":
                            into.append(probe_sendfile(server.datafile(), request, options.size))
                        else:
                            into.append(server.run(path, work, request))
                for path, runs in rows.items():
                    cells.append(dict(median(runs), where=name, work=work, request=request, path=path))
                    print("%-5s %-5s %5d KiB  %-14s %6.2f GB/s   CPU client %5.3f server %5.3f s/GiB" % (
                        name, work, request // KIB, path, cells[-1]["gb_s"], cells[-1]["client"], cells[-1]["server"]), flush=True)


def bars(cells):
    def cell(**wanted):
        for one in cells:
            if all(one[key] == value for key, value in wanted.items()):
                return one
        return None

    told = []
    for where in ("disk", "memory"):
        for request in sorted({one["request"] for one in cells}):
            at = {"where": where, "request": request}
            sendfile, cached = cell(work="read", path="probe sendfile", **at), cell(work="read", path="cached", **at)
            if where == "memory" and sendfile and cached:
                told.append(("cached read / sendfile", request, cached["gb_s"] / sendfile["gb_s"], 0.9, True))
                told.append(("cached server CPU / sendfile", request, cached["server"] / sendfile["server"], 1.15, False))
            for work in ("read", "write"):
                local, bypass = cell(work=work, path="probe local", **at), cell(work=work, path="bypass", **at)
                if local and bypass:
                    told.append(("bypass %s / local, %s" % (work, where), request, bypass["gb_s"] / local["gb_s"], 0.9, True))
                    told.append(("bypass %s server CPU s/GiB, %s" % (work, where), request, bypass["server"], 0.01, False))
                direct, buffered = cell(work=work, path="direct", **at), cell(work=work, path="buffered", **at)
                if direct and buffered:
                    told.append(("direct %s server CPU / buffered" % work, request, direct["server"] / buffered["server"], 0.75, False))
    print("\n%-36s %9s %8s  bar" % ("", "request", "value"))
    for what, request, value, bar, at_least in told:
        met = value >= bar if at_least else value <= bar
        print("%-36s %5d KiB %8.3f  %s %.2f %s" % (what, request // KIB, value, ">=" if at_least else "<=", bar, "met" if met else "missed"))
    return [dict(zip(("what", "request", "value", "bar", "at_least"), one)) for one in told]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--json")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=512, help="MiB")
    parser.add_argument("--depth", type=int, default=4, help="requests in flight; bypass: 1, as the local probe")
    parser.add_argument("--requests", type=int, nargs="+", default=[128, 1024], help="KiB")
    parser.add_argument("--only", choices=("disk", "memory"))
    parser.add_argument("--port", type=int, default=17500)
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    options.size *= MIB
    options.requests = [one * KIB for one in options.requests]
    prefer()
    cells = []
    for name, parent in (("disk", os.environ.get("SPATE_BENCH_DISK", options.bin)), ("memory", "/dev/shm")):
        if options.only in (None, name):
            measure(options, name, parent, cells)
    held = bars(cells)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"host": platform.node(), "kernel": platform.release(), "cpus": os.cpu_count(), "runs": options.runs,
                       "size": options.size, "cells": cells, "bars": held}, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
