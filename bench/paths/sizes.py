# SPDX-License-Identifier: Apache-2.0
"""gmblock, Figures 8(a) and 9: remote read bandwidth by size of the requests, with 1, 2 and 4 under way, natively by each path
and by NBD, of the very same file in memory; from a disk with nothing in the page cache (--only disk) natively only, where the
paths differ most. The server on one core, the client on the other. On a disk in order, as there; in memory anywhere."""
from bed import KIB, MIB, Server, places
from peers import Peers
from tables import measure, table


def native(server, options, where, depth):
    paths = ["buffered", "cached", "bypass"] + (["direct"] + (["p2p"] if options.p2p else []) if where == "disk" else [])

    def one(path):
        def measured(size):
            return server.run(path, where == "disk", work="read" if where == "disk" else "random", request=size, depth=depth, size=options.size,
                              seconds=options.seconds, core=options.client_core)
        return measured

    return {"spate " + path: one(path) for path in paths}


def run(options):
    results = {}
    for where, parents in places(options).items():
        with Server(options, parents, env=options.p2p) as server:
            server.run("buffered", work="write", request=MIB, depth=4, size=options.size)
            server.pin(options.server_core)
            peers = Peers(options, server) if where == "memory" else None
            for depth in options.points or [1, 2, 4]:
                series = native(server, options, where, depth)
                for peer in peers.servers if peers else []:
                    series[peer.name] = lambda size, peer=peer, depth=depth: peers.measure(peer, size, depth)
                found = measure("sizes, %s, %d under way:" % (where, depth), options.requests, series, options.runs)
                sizes = ["%dK" % (size // KIB) for size in options.requests]
                at = "%d under way, %s" % (depth, where)
                results["sizes_%s_%d_gb_s" % (where, depth)] = table("gmblock Figure 8(a): remote reads, " + at, "GB/s", "request", sizes, found, "gb_s")
                results["sizes_%s_%d_server" % (where, depth)] = table("gmblock Figure 8(a): server CPU, " + at, "s/GiB", "request", sizes, found, "server")
    return results
