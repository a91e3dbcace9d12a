#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/run paths: each experiment with tiny sizes gives its tables, JSON and drawings, with every path in them."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SOURCE, BIN = os.environ["SPATE_SOURCE"], os.environ["SPATE_BIN"]
CORES = "%d,%d" % (min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0)))
sys.path.insert(0, os.path.join(SOURCE, "tests/integration"))
from cluster import check, free_ports  # noqa: E402
from paths import refuses_direct  # noqa: E402


def bench(folder, what, *more):
    """Runs one experiment and returns the JSON that it wrote."""
    out = os.path.join(folder, what + ".json")
    words = [what, "--bin", BIN, "--port", str(free_ports(20)), "--cores", CORES, "--runs", "1", "--json", out, *more]
    done = subprocess.run([sys.executable, os.path.join(SOURCE, "bench/paths/paths.py"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120, text=True)
    check(done.returncode == 0, "%s: exit %d\n%s%s" % (what, done.returncode, done.stdout, done.stderr))
    with open(out) as f:
        told = json.load(f)
    figures = told.get("figures", {})
    draw = [os.path.join(SOURCE, "bench/draw.py"), "--to", folder, out]  # by its own first line: the python that has matplotlib
    files = subprocess.run(draw, check=True, stdout=subprocess.PIPE, timeout=120, text=True).stdout.split() if figures else []
    check(len(files) == len(figures), "%s: %d drawings of %d figures" % (what, len(files), len(figures)))
    for (name, figure), file in zip(figures.items(), files):
        check(figure["title"] in done.stdout, "%s is not in the table" % name)
        with open(file) as f:
            drawn = f.read()
        check(all(">%s</text>" % series in drawn for series in figure["series"]), "%s.svg does not show every series" % name)
    return told


def holds(figure, points, *series, least=1e-9):
    for name in series:
        values = figure["series"].get(name)
        check(values is not None and len(values) == points and all(value is not None and value >= least for value in values), "%s of %s: %s" % (name, figure["title"], values))


def bars(folder, where, disk):
    told = bench(folder, "bars", "--size", "2", "--requests", "128", "--only", where)
    paths = {cell["path"] for cell in told["cells"] if cell["work"] == "read" and cell["gb_s"] > 0}
    probes = {"probe local", "probe sendfile"} | ({"probe pread", "probe direct"} if disk else set())
    check(paths == {"buffered", "cached", "bypass"} | probes | disk, "bars: %s" % paths)


def striped(folder, where, disk):
    figures = bench(folder, "striped", "--size", "3", "--points", "1", "3", "--only", where)["figures"]
    more = ["spate direct"] if disk else []
    holds(figures["local_%s_gb_s" % where], 2, "pread, a thread a folder", "spate bypass", "spate buffered", *more)
    holds(figures["remote_%s_gb_s" % where], 2, "sendfile", "spate buffered", "spate cached", *more)
    holds(figures["remote_%s_server" % where], 2, "sendfile", "spate buffered", "spate cached", *more)


def streams(folder, where, disk):
    figures = bench(folder, "streams", "--size", "2", "--points", "3", "--seconds", "0.05", "--peers", "spate,striped", "--only", where)["figures"]
    for key in ("mean_us", "p99_us", "max_us", "jitter_us"):
        holds(figures["streams_%s_%s" % (where, key)], 1, "spate buffered", "spate cached", "spate bypass", "nbd spate, datafile", "nbd spate, striped file",
              *(["spate direct"] if disk else []), least=0 if key == "jitter_us" else 1e-9)


def has_direct():
    with tempfile.TemporaryDirectory(dir=BIN) as disk:
        return not refuses_direct(disk)


with tempfile.TemporaryDirectory() as folder:
    bars(folder, "memory", set())
    striped(folder, "memory", False)
    streams(folder, "memory", False)
    if has_direct():
        bars(folder, "disk", {"direct"})
        striped(folder, "disk", True)
        streams(folder, "disk", True)
    sizes = bench(folder, "sizes", "--size", "2", "--points", "2", "--seconds", "0.05", "--requests", "1", "64", "--peers", "probe-sendfile,spate", "--only", "memory")
    holds(sizes["figures"]["sizes_memory_2_gb_s"], 2, "spate buffered", "spate cached", "spate bypass", "nbd probe-sendfile", "nbd spate, datafile")
    told = bench(folder, "neighbours", "--size", "2", "--seconds", "0.05", "--points", "3", "--peers", "probe-sendfile,spate")["figures"]
    for program in ["triad"] + (["bzip2"] if shutil.which("bzip2") else []):
        for name in ("neighbours_" + program, "neighbours_%s_gb_s" % program, "neighbours_%s_kept" % program, "neighbours_%s_probe" % program):
            holds(told[name], 1, "spate buffered", "spate cached", "spate bypass", "nbd probe-sendfile", "nbd spate, datafile")
