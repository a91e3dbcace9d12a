#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data paths beside each other, beside bare probes and beside other servers; and the experiments of the papers that they
come from, repeated: bench/run paths [NAME]. See README.md.

  bars        each path, from a disk and from memory, with the bars (without a name: this one)
  striped     OPIOM, Figures 4 to 7: local read and remote copy, 1 to 6 storage folders
  streams     OPIOM, Figure 8: a video server, 1 to 32 streams of 128 KiB reads in no order
  sizes       gmblock, Figures 8(a) and 9: remote reads by request size and requests under way, beside NBD servers
  neighbours  gmblock, Figure 8(b): what serving costs a program on the same machine, beside NBD servers
"""
import argparse
import json
import os
import platform
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import bars  # noqa: E402 (after the path)
import neighbours  # noqa: E402
import sizes  # noqa: E402
import streams  # noqa: E402
import striped  # noqa: E402
from bed import KIB, MIB  # noqa: E402
from figures import text  # noqa: E402
from servers import priority  # noqa: E402

EXPERIMENTS = {"striped": striped.run, "streams": streams.run, "sizes": sizes.run, "neighbours": neighbours.run}


def arguments():
    parser = argparse.ArgumentParser(prog="run paths", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("what", nargs="?", choices=["bars", *EXPERIMENTS], default="bars")
    parser.add_argument("--json", help="write everything here")
    parser.add_argument("--runs", type=int, default=5, help="of each cell; the median is told (5)")
    parser.add_argument("--size", type=int, help="of the file, MiB (512; striped 1024, streams 2048)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run of streams, sizes and neighbours (1)")
    parser.add_argument("--depth", type=int, default=4, help="bars: requests in flight; bypass: 1, as the local probe")
    parser.add_argument("--requests", type=int, nargs="+", help="KiB: bars (128 1024), sizes (1 to 1024)")
    parser.add_argument("--points", type=int, nargs="+", help="striped: folders (1 to 6); streams: how many (1 to 32); sizes: requests under way (1 2 4);"
                        " neighbours: places (0 to 3)")
    parser.add_argument("--peers", type=lambda names: names.split(","), help="only these NBD servers, separated by commas (as bench/run nbd names them; striped)")
    parser.add_argument("--rate", type=int, default=500, help="neighbours: MB/s of the runs at equal bandwidth")
    parser.add_argument("--p2p-memory", help="memory of a PCI device (docs/data-paths.md): path p2p is measured, too")
    parser.add_argument("--only", choices=("disk", "memory"), help="where the storage is")
    parser.add_argument("--cores", default="0,1", help="sizes and neighbours: of the server and of the client")
    parser.add_argument("--port", type=int, default=17500)
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    options.size = (options.size or {"striped": 1024, "streams": 2048}.get(options.what, 512)) * MIB
    options.requests = [one * KIB for one in options.requests or ([1 << n for n in range(11)] if options.what == "sizes" else [128, 1024])]
    options.server_core, options.client_core = (int(core) for core in options.cores.split(","))
    options.p2p = {"SPATE_FLOW_P2P_MEMORY": options.p2p_memory} if options.p2p_memory else {}
    return options


def main():
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the servers even after a signal
    priority()
    about = {"host": platform.node(), "kernel": platform.release(), "cpus": os.cpu_count(), "runs": options.runs, "size": options.size,
             "load": os.getloadavg()}
    if options.what == "bars":
        found, results = bars.run(options), {}
    else:
        results = EXPERIMENTS[options.what](options)
        found = {"figures": results}
        print("\n".join(text(result) for result in results.values()), flush=True)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({**about, **found}, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
