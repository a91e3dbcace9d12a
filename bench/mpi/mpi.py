#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPI-IO on Spate beside native calls and the MPI library's own MPI-IO: bench/run mpi.

Prints MiB/s of all ranks together, written and read, the median of the runs; and how the goals are met. An MPI that is not installed is named
and left out. README.md tells the parts.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import bars  # noqa: E402 (after the path)
import simulation  # noqa: E402 (after the path)
from servers import Servers, log, log_once  # noqa: E402 (after the path)

HERE = os.path.dirname(os.path.abspath(__file__))
KIB, MIB = 1 << 10, 1 << 20
PARTS = ("contiguous", "small", "pieces", "btio", "arrays")  # run with each MPI
OWN = {"mpich": "ROMIO", "openmpi": "OMPIO"}
WAYS = ["native", "contiguous", "independent", "disable", "enable", "automatic"]
# Libraries above MPI-IO: what array_program.c takes, pkg-config's name for it with an MPI, the layouts that it has.
ARRAYS = {"hdf5": ("-DUSE_HDF5", {"mpich": "hdf5-mpich", "openmpi": "hdf5-openmpi"}, ("contiguous", "chunked")),
          "netcdf": ("-DUSE_NETCDF", {"openmpi": "netcdf-mpi"}, ("contiguous", "chunked")),
          "pnetcdf": ("-DUSE_PNETCDF", {"openmpi": "pnetcdf"}, ("contiguous",))}
QUICK_SECONDS = 600  # part of the 12 minutes for the bars; the rest is for the simulation and for work that cannot be cut
QUICK_CELLS = 32  # cells of one MPI with --quick, approximately
PLACES = {"mount": "over the mount", "preload": "over preload", "own": "on a local file in memory"}


def libraries(options):
    found = []
    for mpi in OWN:
        missing = [p for p in ("mpicc." + mpi, "mpiexec." + mpi) if not shutil.which(p)]
        if not os.path.exists(f"{options.bin}/../lib/libspate-mpi-{mpi}.so"):
            missing.append(f"libspate-mpi-{mpi}.so")
        if missing:
            log(f"{mpi} is left out: no {missing[0]}")
        else:
            found.append(mpi)
    return found


def name_of(where, way):
    """Returns the name of a column. Ways of Spate's MPI-IO have no prefix."""
    return way if where == "spate" else f"{where} {way}"


class Bench:
    def __init__(self, options, folder, fs):
        self.options, self.folder, self.fs, self.cells, self.tables = options, folder, fs, [], {}
        self.begin, self.expected, self.failed = time.monotonic(), 1, []
        self.mount = self.mounted()

    def mounted(self):
        """Mounts Spate for MPI's own functions and returns the folder. Logs the reason and returns None if mounting
        fails."""
        place = self.folder + "/mnt"
        done = subprocess.run([self.options.bin + "/spate", "--fs", self.fs.dir, "mount", "-p", place], env=self.fs.environment, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return place
        log("no columns of MPI's own MPI-IO over the mount: " + done.stderr.strip())
        return None

    def unmount(self):
        if self.mount is not None:
            subprocess.run([self.options.bin + "/spate", "umount", self.mount], env=self.fs.environment, check=False)

    def one(self, mpi, ranks, where, program, words, hints=""):
        """Returns what one process of each rank prints: rows of numbers. `where`: "spate"; "own", MPI's own MPI-IO on a
        local file; or "mount" and "preload", MPI's own MPI-IO on Spate. `hints`: lines of ROMIO_HINTS."""
        file = {"spate": "spate:/bench", "preload": "/spate/bench", "own": self.folder + "/own", "mount": f"ufs:{self.mount}/bench"}[where]
        if where == "mount" and mpi == "openmpi":
            file = file[4:]  # OMPIO does not know the prefix ufs:
        if where == "spate" and program != "program":
            file = "/spate/bench"  # some of the libraries need this form
        spread = ["--oversubscribe", "--mca", "btl", "self,vader"] if mpi == "openmpi" else []
        command = ["mpiexec." + mpi, *spread, "-n", str(ranks), f"{self.folder}/{program}.{mpi}", file, *map(str, words)]
        if where in ("spate", "preload"):
            command = [self.options.bin + "/spate", "run", *(["--mpi"] if where == "spate" else []), "--", *command]
        environment = dict(self.fs.environment, SPATE_FS=self.fs.dir, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        if hints:
            environment["ROMIO_HINTS"] = self.folder + "/hints"
            with open(environment["ROMIO_HINTS"], "w") as out:
                out.write(hints)
        # Run in a new session: waiting ranks yield all the time, which starves the servers on some kernels.
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as running:
            try:
                out = running.communicate(timeout=120 if self.options.quick else 600)[0]
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)  # the ranks end, too
                raise
        if running.returncode != 0:
            raise subprocess.CalledProcessError(running.returncode, command)
        return [[float(word) for word in line.split()] for line in out.splitlines()]

    def behind(self):
        """Returns whether --quick is behind its schedule. Cells are then measured once."""
        return self.options.quick and time.monotonic() - self.begin > QUICK_SECONDS * (len(self.cells) + 1) / self.expected

    def tried(self, mpi, ranks, where, *words):
        """Like one(). A failure leaves the column of this cell empty, and the bench fails at its end."""
        try:
            return self.one(mpi, ranks, where, *words)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            self.failed.append(f"{mpi}, {ranks} ranks, {where}, {words[0]} {words[1]}: {error}")
            log(self.failed[-1])
            return []

    def cell(self, part, mpi, ranks, point, words, processes, runs=None, program="program", hints=""):
        """Runs the processes (where, ways) by turns. Returns {column: [written, read]}, the medians in MiB/s, and keeps
        them for the bars."""
        pattern, piece, size = words
        values, seconds = {}, {}
        for turn in range(self.options.turns):
            if turn > 0 and self.behind():
                log_once("slow: some cells are measured once only")
                break
            for where, ways in processes:
                if (where == "mount" and self.mount is None) or (where == "own" and turn > 0):  # no bar needs the latter
                    continue
                # A write of small pieces by MPI's own functions takes seconds.
                count = runs or (self.options.runs if where == "spate" else max(1, self.options.runs // 5))
                rows = self.tried(mpi, ranks, where, program, (pattern, ",".join(ways), piece, size, count), hints)
                for n, way in enumerate(ways if rows else ()):
                    both = [statistics.median(row[1 + 2 * n + read] for row in rows) for read in (0, 1)]
                    seconds.setdefault(name_of(where, way), []).append(both)
                    values.setdefault(name_of(where, way), []).append([rows[0][0] / MIB / took for took in both])
        got = {name: [statistics.median(v[read] for v in list_) for read in (0, 1)] for name, list_ in values.items()}
        took = {name: [statistics.median(v[read] for v in list_) for read in (0, 1)] for name, list_ in seconds.items()}
        self.cells.append(dict(part=part, mpi=mpi, ranks=ranks, point=point, speeds=got, seconds=took))
        return got

    def note(self, name, title, x, point, got, unit="MiB/s"):
        """Adds a point to a figure in the format of bench/run draw."""
        table = self.tables.setdefault(name, {"title": title, "unit": unit, "x": x, "points": [], "series": {}})
        table["points"].append(str(point))
        for where, (write, read) in got.items():
            for what, value in (("write", write), ("read", read)):
                table["series"].setdefault(f"{where}, {what}", []).append(value)

    @staticmethod
    def row(start, got, columns, form="{:>8.0f} /{:>6.0f}"):
        print(start + "".join(form.format(*got[c]) if c in got else f"{'-':>15} " for c in columns), flush=True)

    @staticmethod
    def head(title, columns, mpi):
        print(f"\n{mpi}, {title}: " + ", ".join(Bench.spell(c, mpi) for c in columns))

    @staticmethod
    def spell(column, mpi):
        where, _, way = column.partition(" ")
        return f"{OWN[mpi]} {PLACES[where]}, {way}" if way else f"spate {column}"

    @staticmethod
    def others(*ways):
        return [(where, list(ways)) for where in PLACES]

    def contiguous(self, mpi):
        columns = ["independent", "native", *(name_of(w, "independent") for w in PLACES)]
        self.head("contiguous (Figure 7), MiB/s written/read by ranks, KiB a rank", columns, mpi)
        for ranks in (1, 2) if self.options.quick else (1, *self.options.ranks):
            for size in (64 * KIB, MIB, 16 * MIB) if self.options.quick else (64 * KIB, MIB, 4 * MIB, 16 * MIB):
                runs = self.options.runs * max(1, 4 * MIB // size)
                got = self.cell("contiguous", mpi, ranks, size, ("contiguous", 0, size), [("spate", ["native", "independent"]), *self.others("independent")], runs)
                self.note(f"figure7-{mpi}-{ranks}", f"PVFS Figure 7, {mpi}, {ranks} ranks", "bytes a rank", f"{size // KIB}K" if size < MIB else f"{size // MIB}M",
                          {("spate MPI-IO" if c == "independent" else self.spell(c, mpi)): v for c, v in got.items()})
                self.row(f"{ranks:>4}{size // KIB:>7} ", got, columns)

    def small(self, mpi):
        """Measures with one rank how many microseconds MPI-IO adds to a call."""
        print(f"\n{mpi}, small contiguous calls of one rank, us written/read: bytes, MPI-IO, native, difference")
        for size in (8, 512, 4 * KIB):
            self.cell("small", mpi, 1, size, ("contiguous", 0, size), [("spate", ["native", "independent"])], runs=200 * self.options.runs)
            took = self.cells[-1]["seconds"]
            if not took:
                continue
            both = {w: [1e6 * s for s in took[w]] for w in ("independent", "native")}
            both["difference"] = [a - b for a, b in zip(both["independent"], both["native"])]
            self.row(f"{size:>6} ", both, both, "{:>8.2f} /{:>6.2f}")

    def pieces(self, mpi):
        others = self.others(*(("independent", "automatic") if mpi == "mpich" else ("automatic",)))  # by OMPIO each piece is a call
        columns = [*WAYS, *(name_of(w, way) for w, ways in others for way in ways)]
        self.head("interleaved pieces, MiB/s written/read by ranks, aggregators, bytes a piece", columns, mpi)
        sizes = self.options.pieces or ((64, 256, 1024, 4096, 16384) if self.options.quick else (8, 16, 32, 64, 256, 1024, 4096, 16384, 65536))
        for ranks in (2,) if self.options.quick else self.options.ranks:
            for piece in sizes:
                words = ("pieces", piece, max(MIB, 16 * piece))
                for aggregators in (1, 2):
                    got = self.cell("pieces", mpi, ranks, piece, words, [("spate", WAYS), *(others if aggregators == 1 else [])], hints=f"cb_nodes {aggregators}\n")
                    self.row(f"{ranks:>4}{aggregators:>3}{piece:>7} ", got, columns)
                    if aggregators == 1:
                        self.note(f"pieces-{mpi}-{ranks}", f"Interleaved pieces, {mpi}, {ranks} ranks", "bytes a piece", piece,
                                  {self.spell(c, mpi): got[c] for c in ("automatic", "independent", "contiguous", "mount automatic", "preload automatic") if c in got})

    def btio(self, mpi):
        ways = ["native", "agreed", "contiguous", "disable", "enable", "automatic"]
        columns = [*ways, *(name_of(w, "automatic") for w in PLACES)]
        self.head("BTIO's pattern, MiB/s written/read by ranks, side", columns, mpi)
        for ranks in (4, 9, 16):
            for side in (24, 64):  # classes W and A
                got = self.cell("btio", mpi, ranks, side, ("btio", 0, side), [("spate", ways), *self.others("automatic")])
                self.note(f"btio-{mpi}", f"BTIO's pattern, {mpi}", "ranks, class", f"{ranks}\n{'W' if side == 24 else 'A'}",
                          {self.spell(c, mpi): got[c] for c in ("automatic", "native", "agreed", "contiguous", "mount automatic", "preload automatic") if c in got})
                self.row(f"{ranks:>4}{side:>4} ", got, columns)

    def compiled(self, mpi, library):
        """Compiles array_program.c into the folder. Returns whether it succeeded; logs the reason if not."""
        define, packages, _ = ARRAYS[library]
        package = packages.get(mpi)
        if package is None:
            log(f"{mpi}: no {library}, which Debian packages for " + " and ".join(packages) + " only")
            return False
        found = subprocess.run(["pkg-config", "--cflags", "--libs", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode != 0:
            log(f"{mpi}: no {library}, {package} is not installed")
            return False
        # Debian's package of NetCDF names a folder that differs from the folder of its headers.
        prefix = subprocess.run(["pkg-config", "--variable=prefix", package], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        subprocess.run(["mpicc." + mpi, "-O2", define, "-o", f"{self.folder}/{library}.{mpi}", HERE + "/array_program.c", f"-I{prefix}/include",
                        *found.stdout.split()], check=True)
        return True

    def arrays(self, mpi):
        print(f"\n{mpi}, a 3-D array of doubles by blocks, MiB/s written/read: library, layout, way, ranks, side, spate, {OWN[mpi]} over the mount, on a local file in memory")
        for library, (_, _, layouts) in ARRAYS.items():
            if not self.compiled(mpi, library):
                continue
            for layout, way, ranks in ((l, w, r) for l in layouts for w in ("independent", "collective") for r in ((2,) if self.options.quick else self.options.ranks)):
                side = 64 if self.options.quick else 128
                got = self.cell("arrays", mpi, ranks, f"{library} {layout} {way}", (layout, 0, side), [(w, [way]) for w in ("spate", "mount", "own")], program=library)
                columns = [way, f"mount {way}", f"own {way}"]
                self.note(f"arrays-{mpi}-{ranks}", f"A 3-D array of {side}^3 doubles, {mpi}, {ranks} ranks", "library, layout, way", f"{library}\n{layout}\n{way}",
                          {("spate" if c == way else f"{OWN[mpi]} {PLACES[c.split()[0]]}"): got[c] for c in columns if c in got})
                self.row(f"{library:>8} {layout:>10} {way:>11}{ranks:>4}{side:>5} ", got, columns)

    def all(self, mpi):
        capi = os.path.abspath(self.options.bin + "/../src/capi")
        subprocess.run(["mpicc." + mpi, "-O2", "-o", f"{self.folder}/program.{mpi}", HERE + "/mpi_program.c", "-I" + HERE + "/../../src/capi", "-L" + capi,
                        "-Wl,-rpath," + capi, "-lspate"], check=True)
        for part in PARTS:
            if self.options.only in (None, part):
                getattr(self, part)(mpi)


def arguments():
    parser = argparse.ArgumentParser(prog="run mpi", description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=(*PARTS, "simulation"))
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--pieces", type=int, nargs="+", metavar="BYTES")
    parser.add_argument("--runs", type=int, help="in one process (7; 15 with --quick)")
    parser.add_argument("--turns", type=int, help="of the processes (3; 2 with --quick)")
    parser.add_argument("--quick", action="store_true", help="what the bars need, in at most 12 minutes")
    parser.add_argument("--port", type=int, default=17560)
    parser.add_argument("--json", metavar="FILE", help="the figures, for bench/run draw")
    options = parser.parse_args()
    options.runs = options.runs or (15 if options.quick else 7)
    options.turns = options.turns or (2 if options.quick else 3)
    options.priority = False
    return options


def main():
    options = arguments()
    tables, cells, failed = {}, [], []
    if options.only in (None, "simulation"):
        tables.update(simulation.measure(options))
    if options.only != "simulation":
        with tempfile.TemporaryDirectory(dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"), prefix="spate-bench-") as folder:
            with Servers(options, folder, "fs") as fs:
                bench = Bench(options, folder, fs)
                try:
                    found = libraries(options)
                    bench.expected = QUICK_CELLS * len(found)
                    for mpi in found:
                        bench.all(mpi)
                finally:
                    bench.unmount()
        tables.update(bench.tables)
        cells, failed = bench.cells, bench.failed
        print(bars.text(cells))
    if options.json:
        with open(options.json, "w") as f:
            json.dump(dict(figures=tables, bars=bars.rows(cells), cells=cells), f, indent=1)
            f.write("\n")
    return "\n".join(failed)


if __name__ == "__main__":
    sys.exit(main() or 0)
