# SPDX-License-Identifier: Apache-2.0
"""OPIOM, Figures 4 to 7: local read and remote copy of a file striped over 1 to 6 storage folders by 128 KiB, in requests of
128 KiB: throughput and processor time. As there, regular local I/O has a thread for each folder, the others one process and 2
requests under way up to four folders, 4 above; nothing is in the page cache when a pass begins."""
from bed import KIB, Server, places, probe_local, probe_sendfile
from tables import measure, table

REQUEST = 128 * KIB


def local(server, options, on_disk):
    """Runs programs on the server's machine: plain ones, and clients over shared memory."""
    series = {"pread, a thread a folder": lambda size: probe_local(server.datafiles(), "read", REQUEST, size)}
    if on_disk:
        series["O_DIRECT, a thread a folder"] = lambda size: probe_local(server.datafiles(), "read", REQUEST, size, direct=True)
    for path in ["bypass", "buffered"] + (["direct"] if on_disk else []):
        series["spate " + path] = lambda size, path=path: one_pass(server, path, size, network="shm")
    return series


def remote(server, options, on_disk):
    series = {"sendfile": lambda size: probe_sendfile(server.datafiles(), REQUEST, size)}
    for path in ["buffered", "cached"] + (["direct"] if on_disk else []) + (["p2p"] if on_disk and options.p2p else []):
        series["spate " + path] = lambda size, path=path: one_pass(server, path, size, network="tcp")
    return series


def one_pass(server, path, size, network):
    return server.run(path, network=network, work="read", request=REQUEST, size=size, depth=2 if len(server.storage) <= 4 else 4)


def cold(server, what):
    def one(size):
        server.empty_cache()
        return what(size)
    return one


def run(options):
    results = {}
    folders = options.points or [1, 2, 3, 4, 5, 6]
    for where, parents in places(options).items():
        found = {"local": {}, "remote": {}}
        for count in folders:
            with Server(options, parents, count, REQUEST, options.p2p) as server:
                size = options.size // (REQUEST * count) * REQUEST * count
                server.run("buffered", network="tcp", work="write", request=1024 * KIB, depth=4, size=size)
                for what, series_of in (("local", local), ("remote", remote)):
                    series = {name: cold(server, one) for name, one in series_of(server, options, where == "disk").items()}
                    rows = measure("%s, %s: %d folders," % (what, where, count), [size], series, options.runs)
                    for name, told in rows.items():
                        found[what].setdefault(name, []).extend(told)
        for what, number in (("local", 4), ("remote", 6)):
            text = "OPIOM Figures %d, %d: %s, %s" % (number, number + 1, "local read" if what == "local" else "remote copy", where)
            for key, unit in (("gb_s", "GB/s"), ("server_percent", "% of a processor, server"), ("client_percent", "% of a processor, client"),
                              ("server", "server CPU s/GiB"), ("client", "client CPU s/GiB")):
                results["%s_%s_%s" % (what, where, key)] = table(text, unit, "storage folders", folders, found[what], key)
    return results
