# SPDX-License-Identifier: Apache-2.0
"""NBD servers, ours and others', on the datafile of a Spate file: the servers of bench/nbd, for the experiments in this
folder."""
import argparse
import importlib.util
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def bench_nbd():
    spec = importlib.util.spec_from_file_location("nbd", os.path.join(HERE, "..", "nbd", "nbd.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Peers:
    """The installed servers are in .servers. The Spate file is /f and has one datafile. Nobody may write it meanwhile."""

    def __init__(self, options, server):
        nbd = bench_nbd()
        more = argparse.Namespace(bin=options.bin, size=options.size, port=options.port + 2, seconds=options.seconds, sendfile_from=0,
                                  server_core=options.server_core, client_core=options.client_core)
        self.bench = nbd.Bench(more, server.root, file=server.datafiles()[-1])
        self.server = server
        self.servers = [*nbd.servers(self.bench), nbd.Server("striped", self.striped)]
        self.servers = [one for one in self.servers if options.peers is None or one.name in options.peers]
        for one in self.servers:
            one.name = "nbd " + {"spate": "spate, datafile", "striped": "spate, striped file"}.get(one.name, one.name)

    def striped(self, where, file):
        how = ["--unix", where[5:]] if where.startswith("unix:") else ["--port", where]
        return [self.bench.bin + "/spate-export", "-q", *how, "--fs", os.path.join(self.server.dir, "tcp.toml"), "e=spate:/f"]

    def measure(self, peer, size, depth, connections=1):
        """Returns GB/s, latencies, and processor seconds a GiB of the server (plus those of the io server if one is
        behind it)."""
        cell = {"kind": "read", "transport": "tcp", "size": size, "depth": depth, "connections": connections}
        self.bench.also = [self.server.pid] if peer.name.endswith("striped file") else []
        row = self.bench.measure(peer, cell)
        if row:
            row["server"] = row.pop("cpu_s_per_gib")
        return row
