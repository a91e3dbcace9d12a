# SPDX-License-Identifier: Apache-2.0
"""OPIOM, Figure 8: a video server. 1 to 32 streams, each of which reads 128 KiB at a time, in no order, from a file of which
nothing is in the page cache at the beginning (on a disk), or all of it (in memory): latency and jitter, which is by how much a
stream's request takes longer or shorter than its last one, in the mean. Beside NBD servers of the same file: there each stream is
a connection."""
from bed import KIB, Server, forget, places
from peers import Peers
from tables import measure, table

REQUEST = 128 * KIB
FIGURES = (("mean_us", "mean"), ("p99_us", "99 % within"), ("max_us", "maximum"), ("jitter_us", "jitter"))


def run(options):
    results = {}
    streams = options.points or [1, 2, 4, 8, 16, 32]
    for where, parents in places(options).items():
        with Server(options, parents, env=options.p2p) as server:
            server.run("buffered", work="write", request=1024 * KIB, depth=4, size=options.size)
            peers = Peers(options, server)
            series = {}
            for path in ["buffered", "cached", "bypass"] + (["direct"] + (["p2p"] if options.p2p else []) if where == "disk" else []):
                series["spate " + path] = lambda count, path=path: server.run(path, work="random", request=REQUEST, depth=count, size=options.size,
                                                                              seconds=options.seconds, streams=1)
            for peer in peers.servers:
                series[peer.name] = lambda count, peer=peer: peers.measure(peer, REQUEST, 1, connections=count)

            def cold(one):
                def emptied(count):
                    if where == "disk":
                        forget([folder + "/d" for folder in server.storage])
                    return one(count)
                return emptied

            found = measure("streams, %s:" % where, streams, {name: cold(one) for name, one in series.items()}, options.runs)
        for key, text in FIGURES:
            results["streams_%s_%s" % (where, key)] = table("OPIOM Figure 8: latency of 128 KiB, %s, %s" % (text, where), "ms", "streams", streams,
                                                           found, key, 1e-3)
        results["streams_%s_gb_s" % where] = table("OPIOM Figure 8: all streams, %s" % where, "GB/s", "streams", streams, found, "gb_s")
    return results
