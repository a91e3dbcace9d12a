#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What one piece of a request costs, strided and as a list: bench/run pieces.

One request of 16384 pieces goes to four servers. Prints nanoseconds of processor time a piece, the medians over the runs, which take
turns: the servers' and the client's, of this build and of an older one (--beside); of the same bytes in one piece; and of one system
call a piece on a plain file.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import Servers  # noqa: E402 (after the path)

SHAPES = [(16, 64), (64, 128), (64, 256), (256, 512), (256, 1024), (1024, 2048), (1024, 4096), (4096, 16384), (64, 65536)]


def rows(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--beside", metavar="FOLDER", help="programs of an older build")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--port", type=int, default=17480)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    options.priority = False
    figures = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"), prefix="spate-bench-") as folder:
        builds = [("this", options.bin)] + ([("older", options.beside)] if options.beside else [])
        systems = []
        try:
            for number, (name, folder_of_programs) in enumerate(builds):
                choice = argparse.Namespace(bin=folder_of_programs, port=options.port + 20 * number, priority=False)
                client = os.path.join(folder_of_programs, "pieces_client")
                systems.append((name, client, Servers(choice, folder, name).__enter__()))
            for _ in range(options.runs):
                for piece, stride in SHAPES:
                    shape = [str(piece), str(stride), str(options.rounds)]
                    for name, client, system in systems:
                        for row in rows([client, system.config, *shape, *map(str, system.pids[1:])]):
                            figures.append(dict(row, build=name))
                    for row in rows([systems[0][1], "-", *shape, os.path.join(folder, "plain")]):
                        figures.append(dict(row, build="plain", servers=row["client"]))
        finally:
            for _, _, system in reversed(systems):
                system.__exit__()
    report(figures, [name for name, _ in builds])
    if options.json:
        with open(options.json, "w") as f:
            json.dump(figures, f, indent=1)


def report(figures, names):
    def median(of, **which):
        values = [f[of] for f in figures if all(f[k] == v for k, v in which.items())]
        return statistics.median(values) if values else float("nan")

    print("ns of processor time a piece: servers + client" + " " * 15 + "".join(f"{n:>18}" for n in names) +
          f"{'bytes alone':>18}{'a call each':>14}")
    for kind in ("strided", "list"):
        for way in ("write", "read"):
            for piece, stride in SHAPES:
                shape = {"way": way, "piece": piece, "stride": stride}
                columns = [(kind, n) for n in names] + [("bytes", names[0])]
                cells = "".join(f"{median('servers', kind=k, build=n, **shape):>10.0f} +{median('client', kind=k, build=n, **shape):>6.0f}"
                                for k, n in columns)
                plain = median("servers", kind="plain", build="plain", **shape)
                print(f"{kind:>8} {way:<6}{piece:>6} B, one every {stride:>6} B" + " " * 12 + cells + f"{plain:>14.0f}")


if __name__ == "__main__":
    main()
