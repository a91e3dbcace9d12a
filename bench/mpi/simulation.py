# SPDX-License-Identifier: Apache-2.0
"""Figure 7 and the BTIO table of the PVFS paper at the paper's size, in the simulation of bench/pvfs: virtual time, links of a given
bandwidth, disks of 2 GB/s, processors that take no time. An access of MPI-IO is the same requests as the native call's there; what MPI-IO
adds in processor time is what the other parts measure."""
import json
import os
import subprocess

from servers import log

MB = 1e6
# MB/s that TCP carried on the paper's networks, as the paper measured (section 5).
NETWORKS = {"Fast Ethernet": 10.2, "Myrinet": 37.7}
IO_FIGURE7, IO_BTIO = 32, 16
CLIENTS_FIGURE7 = (1, 2, 4, 8, 16, 24, 28, 32, 45, 60)
CLASSES = {"C": 162, "B": 102}
CELL = 40
# The paper's Table 2, class C: ranks -> read, write.
PAPER = {"Fast Ethernet": {16: (83.8, 79.1), 25: (88.4, 101.3), 36: (66.3, 61.1)}, "Myrinet": {16: (156.7, 157.3), 25: (197.3, 192.0), 36: (232.3, 230.7)}}


def simulated(options, servers, clients, per_server, megabytes, side=None):
    """Returns {clients: (write, read)} in MB/s."""
    words = [servers, ",".join(map(str, clients)), per_server, int(megabytes * MB), 1]
    command = [os.path.join(options.bin, "pvfs_simulate"), *map(str, words), *([str(side)] if side else [])]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {row["clients"]: (row["write"] / MB, row["read"] / MB) for row in map(json.loads, out.splitlines())}


def series(table, name, write, read):
    for what, value in (("write", write), ("read", read)):
        table["series"].setdefault(f"{name}, {what}", []).append(value)


def figure7(options):
    rate = NETWORKS["Myrinet"]
    table = {"title": f"PVFS Figure 7, simulated: {IO_FIGURE7} io servers, links of {rate} MB/s", "unit": "MB/s", "x": "clients",
             "points": [str(c) for c in CLIENTS_FIGURE7], "series": {}}
    print(f"\n{table['title']}: MB/s written/read by clients; KiB of each client for each server; what the links carry")
    for kib in (32, 128):
        got = simulated(options, IO_FIGURE7, CLIENTS_FIGURE7, kib << 10, rate)
        for count in CLIENTS_FIGURE7:
            series(table, f"spate, {kib} KiB a client and server", *got[count])
        print(f"{kib:>5}  " + "".join(f"{c:>6}:{got[c][0]:>6.0f} /{got[c][1]:>5.0f}" for c in CLIENTS_FIGURE7), flush=True)
    carried = [min(count, IO_FIGURE7) * rate for count in CLIENTS_FIGURE7]
    table["series"]["bare links"] = carried
    print("links  " + "".join(f"{c:>6}:{m:>13.0f}" for c, m in zip(CLIENTS_FIGURE7, carried)))
    for name, values in table["series"].items():
        if name != "bare links":
            shares = [v / m for v, m in zip(values, carried)]
            print(f"{name}: {shares[0]:.0%} of the links with one client, {shares[-1]:.0%} with {CLIENTS_FIGURE7[-1]}, at least {min(shares):.0%}")
    return table


def btio(options):
    """Simulates BTIO. The figure has class C, which the paper reports."""
    ranks_of_paper = (16, 25, 36)
    table = {"title": f"BTIO's pattern, class C, simulated: {IO_BTIO} io servers", "unit": "MB/s", "x": "ranks",
             "points": [f"{ranks} ranks" for ranks in ranks_of_paper], "series": {}, "panels": {}}
    print(f"\n{table['title']}: network, class, ranks, MB/s written/read, contiguous, share of it; the paper's PVFS with ROMIO")
    for network, rate in NETWORKS.items():
        for name, side in CLASSES.items():
            for ranks in ranks_of_paper:
                each = side ** 3 * CELL // ranks // IO_BTIO
                write, read = simulated(options, IO_BTIO, [ranks], each, rate, side)[ranks]
                whole = simulated(options, IO_BTIO, [ranks], each, rate)[ranks]
                paper = PAPER[network].get(ranks) if name == "C" else None
                if paper:
                    series(table, f"spate {network}", write, read)
                    series(table, f"bare parts {network}", *whole)
                    series(table, f"PVFS {network}", paper[1], paper[0])
                print(f"{network:>14} {name} {ranks:>3} {write:>7.0f} /{read:>5.0f} {whole[0]:>7.0f} /{whole[1]:>5.0f} {write / whole[0]:>6.2f} /{read / whole[1]:>5.2f}"
                      + (f" {paper[1]:>8.0f} /{paper[0]:>4.0f}" if paper else ""), flush=True)
    for network in NETWORKS:
        table["panels"][network] = [name for name in table["series"] if network in name]
    return table


def measure(options):
    if not os.path.exists(os.path.join(options.bin, "pvfs_simulate")):
        log("no simulated figures: pvfs_simulate is not built")
        return {}
    return {"figure7-simulated": figure7(options), "btio-simulated": btio(options)}
