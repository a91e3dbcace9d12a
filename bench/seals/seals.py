#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What seals cost: the same work sealed and bare, by turns: bench/run seals. See README.md."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import exports  # noqa: E402 (after the path)
from servers import Servers, log, priority  # noqa: E402

PARTS = ("rounds", "tcp", "shm", "nbd")


def arguments():
    parser = argparse.ArgumentParser(prog="run seals", description=__doc__)
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--json", help="write everything here")
    parser.add_argument("--runs", type=int, default=31, help="turns of each figure; the median is told (31)")
    parser.add_argument("--only", default="", help="figures whose names contain this")
    parser.add_argument("--part", choices=PARTS, action="append",
                        help="rounds: round trips with both ends in one thread; tcp, shm: operations of a running file system; nbd: requests to a "
                        "block export of a striped file (all)")
    parser.add_argument("--port", type=int, default=17600)
    options = parser.parse_args()
    options.bin = os.path.abspath(options.bin)
    options.priority = True
    return options


def program(options, *more):
    command = [os.path.join(options.bin, "seals_program"), "--turns", str(options.runs), "--only", options.only, *more]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


class Site(Servers):
    """A file system whose messages are either sealed or not."""

    def __init__(self, options, folder, name, port, module):
        super().__init__(argparse.Namespace(bin=options.bin, port=port, priority=True), folder, name)
        self.sealed = name == "sealed"
        self.module = module

    def __enter__(self):
        auth = [] if self.sealed else ["--set", "fs.auth=none"]
        self.run("--quiet", "up", "--dir", self.dir, "--io", "1", "--port", str(self.port), "--tcp-only", *auth)
        if self.module == "shm":
            self.run("--quiet", "down", "--dir", self.dir)
            with open(self.config) as f:
                text = f.read()
            with open(self.config, "w") as f:
                f.write(re.sub(r'urls = \["tcp://127.0.0.1:(\d+)"\]', r'urls = ["shm://spate-seals-\1", "tcp://127.0.0.1:\1"]', text))
            self.run("--quiet", "up", "--dir", self.dir)
        self.pids = []
        for server in (1, 2):
            with open(os.path.join(self.dir, "run", f"server-{server}.pid")) as f:
                self.pids.append(f.read().split()[0])
            priority(self.pids[-1])
        return self

    def arguments(self):
        return ["--config", self.config, "--servers", ",".join(self.pids)]


def two_systems(options, module, compare):
    """Returns the result of compare(sealed, bare) for two file systems."""
    folder = tempfile.mkdtemp(prefix="spate-seals-", dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"))
    try:
        with Site(options, folder, "sealed", options.port, module) as sealed, Site(options, folder, "bare", options.port + 10, module) as bare:
            return compare(sealed, bare)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def table(title, rows):
    print(f"\n{title}, us\n{'':30s}{'sealed':>9s}{'bare':>9s}{'more':>9s}")
    for row in rows:
        print(f"{row['name']:30s}{row['sealed_us']:9.2f}{row['bare_us']:9.2f}{row['more_us']:9.2f}{100 * row['more_us'] / row['bare_us']:8.1f}%", flush=True)


def main():
    options = arguments()
    priority()
    found = {"load": os.getloadavg()}
    for part in options.part or PARTS:
        log("+ " + part)
        if part == "rounds":
            found[part] = program(options)
            table("Round trips over tcp, processor time of both ends", found[part])
        elif part == "nbd":
            found[part] = two_systems(options, "tcp", lambda *sites: exports.compare(options, *sites))
            table(f"Block exports over tcp, {exports.DEPTH} requests at once, processor time of client, export and servers", found[part])
        else:
            found[part] = two_systems(options, part, lambda *sites: program(options, "--count", "500", *(word for site in sites for word in site.arguments())))
            table(f"Operations over {part}, processor time of client and servers", found[part])
    if options.json:
        with open(options.json, "w") as f:
            json.dump(found, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
