# SPDX-License-Identifier: Apache-2.0
"""Measures each path from a disk and from memory next to bare probes, and checks Spate's bars."""
import random

from bed import KIB, Server, median, places, probe_local, probe_send, probe_sendfile


def measure(options, name, parents, cells):
    on_disk = name == "disk"
    size = options.size
    with Server(options, parents) as server:
        def run(path, work, request, cold=False):
            return server.run(path, cold, work=work, request=request, depth=1 if path == "bypass" else options.depth, size=size)

        for request in options.requests:
            run("buffered", "write", request)
            for work in ("read", "write"):
                paths = ["buffered", "cached", "direct", "bypass"] if work == "read" else ["buffered", "direct", "bypass"]
                if not on_disk:
                    paths.remove("direct")
                probes = ["probe local"] + (["probe sendfile"] if work == "read" else []) + (["probe pread", "probe direct"] if work == "read" and on_disk else [])
                rows = {path: [] for path in paths + probes}
                for i in range(options.runs):
                    # Uses a new order each time, so that no path always runs in the state (memory, disk cache) that a
                    # certain other path left.
                    for path, into in random.Random(i).sample(list(rows.items()), len(rows)):
                        if on_disk and path.startswith("probe"):
                            server.empty_cache()
                        if path == "probe local":
                            into.append(probe_local(server.datafiles()[-1:], work, request, size))
                        elif path == "probe sendfile":
                            into.append(probe_sendfile(server.datafiles()[-1:], request, size))
                        elif path in ("probe pread", "probe direct"):
                            into.append(probe_send(options, server.datafiles()[-1], path.split()[1], request))
                        else:
                            into.append(run(path, work, request, on_disk))
                for path, runs in rows.items():
                    cells.append(dict(median(runs), where=name, work=work, request=request, path=path))
                    print("%-5s %-5s %5d KiB  %-14s %6.2f GB/s   CPU client %5.3f server %5.3f s/GiB" % (
                        name, work, request // KIB, path, cells[-1]["gb_s"], cells[-1]["client"], cells[-1]["server"]), flush=True)


def held(cells):
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
            pread, bare = cell(work="read", path="probe pread", **at), cell(work="read", path="probe direct", **at)
            if pread and bare:
                told.append(("the same of the bare probes, read", request, bare["server"] / pread["server"], 0.75, False))
    print("\n%-36s %9s %8s  bar" % ("", "request", "value"))
    for what, request, value, bar, at_least in told:
        met = value >= bar if at_least else value <= bar
        print("%-36s %5d KiB %8.3f  %s %.2f %s" % (what, request // KIB, value, ">=" if at_least else "<=", bar, "met" if met else "missed"))
    return [dict(zip(("what", "request", "value", "bar", "at_least"), one)) for one in told]


def run(options):
    cells = []
    for name, parents in places(options).items():
        measure(options, name, parents, cells)
    return {"cells": cells, "bars": held(cells)}
