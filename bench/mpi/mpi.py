#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPI-IO on Spate beside the MPI library's own MPI-IO on a file in memory: bench/run mpi.

Prints MiB/s of all ranks together, written and read, the median of the runs. An MPI that is not installed is named and left out.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import Servers, log  # noqa: E402 (after the path)

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
PARTS = ("contiguous", "pieces", "btio", "arrays")
OWN = {"mpich": "ROMIO", "openmpi": "OMPIO"}
WAYS = ("independent", "disable", "enable", "automatic")
# Libraries above MPI-IO: what array_program.c takes, pkg-config's name for it with an MPI, the layouts that it has.
ARRAYS = {"hdf5": ("-DUSE_HDF5", {"mpich": "hdf5-mpich", "openmpi": "hdf5-openmpi"}, ("contiguous", "chunked")),
          "netcdf": ("-DUSE_NETCDF", {"openmpi": "netcdf-mpi"}, ("contiguous", "chunked")),
          "pnetcdf": ("-DUSE_PNETCDF", {"openmpi": "pnetcdf"}, ("contiguous",))}


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


class Bench:
    def __init__(self, options, folder, fs):
        self.options, self.folder, self.fs, self.figures, self.tables = options, folder, fs, [], {}
        self.mount = self.mounted()

    def mounted(self):
        """Where Spate is mounted, for MPI's own functions on it; None, and said, where it cannot be."""
        place = self.folder + "/mnt"
        done = subprocess.run([self.options.bin + "/spate", "--fs", self.fs.dir, "mount", "-p", place], env=self.fs.environment, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return place
        log("no columns of MPI's own MPI-IO over the mount: " + done.stderr.strip())
        return None

    def unmount(self):
        if self.mount is not None:
            subprocess.run([self.options.bin + "/spate", "umount", self.mount], env=self.fs.environment, check=False)

    def note(self, name, title, x, point, got):
        """A point of a figure, as bench/run draw takes it."""
        table = self.tables.setdefault(name, {"title": title, "unit": "MiB/s", "x": x, "points": [], "series": {}})
        table["points"].append(str(point))
        for where, (write, read) in got.items():
            for what, value in (("write", write), ("read", read)):
                table["series"].setdefault(f"{where}, {what}", []).append(None if value != value else value)

    def one(self, mpi, ranks, where, pattern, way, piece, size, runs):
        """MiB/s of one kind of run: (written, read). `pattern`: of mpi_program.c, or a library and a layout ("hdf5/chunked"). `where`: spate; native: calls of spate.h; own: MPI's own MPI-IO on a local file; mount and
        preload: MPI's own on Spate."""
        if where == "mount" and self.mount is None:
            return [float("nan")] * 2
        file = {"spate": "/spate/bench", "preload": "/spate/bench", "native": "/bench", "own": self.folder + "/own", "mount": f"ufs:{self.mount}/bench"}[where]
        if where == "mount" and mpi == "openmpi":
            file = file[4:]  # OMPIO knows no ufs:
        spread = ["--oversubscribe", "--mca", "btl", "self,vader"] if mpi == "openmpi" else []
        program, _, pattern = ("program/" + pattern).rpartition("/")
        program = self.folder + "/" + program.rpartition("/")[2] + "." + mpi
        command = ["mpiexec." + mpi, *spread, "-n", str(ranks), program, file, pattern, way, str(piece), str(size), str(runs)]
        if where in ("spate", "preload"):
            command = [self.options.bin + "/spate", "run", *(["--mpi"] if where == "spate" else []), "--", *command]
        environment = dict(self.fs.environment, SPATE_FS=self.fs.dir, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        # A session of its own: ranks that wait yield all the time, which on some kernels keeps the servers waiting.
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=600, start_new_session=True)
        rows = [line.split() for line in done.stdout.splitlines()]
        speeds = [statistics.median(int(r[0]) / MIB / float(r[column]) for r in rows) for column in (1, 2)]
        self.figures.append(dict(mpi=mpi, ranks=ranks, where=where, pattern=pattern, way=way, piece=piece, size=size, write=speeds[0], read=speeds[1]))
        return speeds

    def by_turns(self, cells):
        """Runs the cells (name -> arguments of one()) in turns and takes medians."""
        values = {name: [] for name in cells}
        for _ in range(self.options.turns):
            for name, arguments in cells.items():
                values[name].append(self.one(*arguments, self.options.runs))
        return {name: [statistics.median(v[i] for v in list_) for i in (0, 1)] for name, list_ in values.items()}

    def contiguous(self, mpi):
        wheres = {"spate": "spate MPI-IO", "native": "spate native calls", "mount": f"{OWN[mpi]} over the mount", "preload": f"{OWN[mpi]} over preload",
                  "own": f"{OWN[mpi]} on a local file in memory"}
        print(f"\n{mpi}, contiguous (Figure 7), MiB/s written/read: ranks, MiB a rank, " + ", ".join(wheres.values()))
        for ranks in self.options.ranks:
            for size in (1, 4, 16) if not self.options.quick else (4,):
                cells = {w: (mpi, ranks, w, "contiguous", "native" if w == "native" else "independent", 0, size * MIB) for w in wheres}
                got = self.by_turns(cells)
                self.note(f"figure7-{mpi}-{ranks}", f"PVFS Figure 7, {mpi}, {ranks} ranks", "MiB a rank", size, {wheres[w]: v for w, v in got.items()})
                print(f"{ranks:>4}{size:>6}   " + "".join(f"{got[w][0]:>10.0f} /{got[w][1]:>7.0f}" for w in cells), flush=True)

    def pieces(self, mpi):
        print(f"\n{mpi}, interleaved pieces, MiB/s written/read: ranks, bytes a piece, " + ", ".join(WAYS) + f", {OWN[mpi]} collective on a local file;"
              " the automatic choice by the better way")
        sizes = (8, 16, 32, 64, 256, 1024, 4096, 16384, 65536) if not self.options.quick else (256, 16384)
        for ranks in self.options.ranks:
            for piece in self.options.pieces or sizes:
                size = max(MIB, 16 * piece)
                cells = {way: (mpi, ranks, "spate", "pieces", way, piece, size) for way in WAYS}
                cells["own"] = (mpi, ranks, "own", "pieces", "automatic", piece, size)
                got = self.by_turns(cells)
                share = [got["automatic"][i] / max(got["disable"][i], got["enable"][i]) for i in (0, 1)]
                print(f"{ranks:>4}{piece:>8} " + "".join(f"{got[c][0]:>8.0f} /{got[c][1]:>6.0f}" for c in cells) + f"   {share[0]:.2f} /{share[1]:.2f}", flush=True)

    def compiled(self, mpi, library):
        """Whether array_program.c now stands in the folder; else it says why not."""
        define, packages, _ = ARRAYS[library]
        package = packages.get(mpi)
        if package is None:
            log(f"{mpi}: no {library}, which Debian packages for " + " and ".join(packages) + " only")
            return False
        found = subprocess.run(["pkg-config", "--cflags", "--libs", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode != 0:
            log(f"{mpi}: no {library}, {package} is not installed")
            return False
        # Debian's package of NetCDF names another folder than the one that it has its headers in.
        prefix = subprocess.run(["pkg-config", "--variable=prefix", package], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        subprocess.run(["mpicc." + mpi, "-O2", define, "-o", f"{self.folder}/{library}.{mpi}", HERE + "/array_program.c", f"-I{prefix}/include",
                        *found.stdout.split()], check=True)
        return True

    def arrays(self, mpi):
        wheres = {"spate": "spate", "mount": f"{OWN[mpi]} over the mount", "own": f"{OWN[mpi]} on a local file in memory"}
        print(f"\n{mpi}, a 3-D array of doubles by blocks, MiB/s written/read: library, layout, way, ranks, side, " + ", ".join(wheres.values()))
        for library, (_, _, layouts) in ARRAYS.items():
            if not self.compiled(mpi, library):
                continue
            for layout, way, ranks in ((l, w, r) for l in layouts for w in ("independent", "collective") for r in self.options.ranks):
                side = 64 if self.options.quick else 128
                got = self.by_turns({w: (mpi, ranks, w, f"{library}/{layout}", way, 0, side) for w in wheres})
                self.note(f"arrays-{mpi}-{ranks}", f"A 3-D array of {side}^3 doubles, {mpi}, {ranks} ranks", "library, layout, way",
                          f"{library}\n{layout}\n{way}", {wheres[w]: v for w, v in got.items()})
                print(f"{library:>8} {layout:>10} {way:>11}{ranks:>4}{side:>5} " + "".join(f"{got[w][0]:>8.0f} /{got[w][1]:>6.0f}" for w in wheres), flush=True)

    def btio(self, mpi):
        print(f"\n{mpi}, BTIO's pattern, MiB/s written/read: ranks, side, " + ", ".join(WAYS) + f", contiguous, {OWN[mpi]} collective on a local file, over the mount, over preload")
        for ranks in (4, 9, 16) if not self.options.quick else (4,):
            for side in (24, 64) if not self.options.quick else (24,):
                cells = {way: (mpi, ranks, "spate", "btio", way, 0, side) for way in WAYS}
                cells["contiguous"] = (mpi, ranks, "spate", "contiguous", "independent", 0, side ** 3 * 40 // ranks)
                cells["own"] = (mpi, ranks, "own", "btio", "automatic", 0, side)
                cells["mount"] = (mpi, ranks, "mount", "btio", "automatic", 0, side)
                cells["preload"] = (mpi, ranks, "preload", "btio", "automatic", 0, side)
                got = self.by_turns(cells)
                self.note(f"btio-{mpi}", f"BTIO's pattern, {mpi}", "ranks x side", f"{ranks}x{side}",
                          {(f"{OWN[mpi]} {w}" if w in ("own", "mount", "preload") else f"spate {w}"): v for w, v in got.items()})
                print(f"{ranks:>4}{side:>4} " + "".join(f"{got[c][0]:>8.0f} /{got[c][1]:>6.0f}" for c in cells), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--pieces", type=int, nargs="+", metavar="BYTES")
    parser.add_argument("--runs", type=int, default=5, help="in one process")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--port", type=int, default=17560)
    parser.add_argument("--json", metavar="FILE", help="the figures, for bench/run draw")
    options = parser.parse_args()
    options.priority = False
    with tempfile.TemporaryDirectory(dir=os.environ.get("SPATE_BENCH_DIR", "/dev/shm"), prefix="spate-bench-") as folder:
        with Servers(options, folder, "fs") as fs:
            bench = Bench(options, folder, fs)
            capi = os.path.abspath(options.bin + "/../src/capi")
            try:
                for mpi in libraries(options):
                    subprocess.run(["mpicc." + mpi, "-O2", "-o", folder + "/program." + mpi, HERE + "/mpi_program.c", "-I" + HERE + "/../../src/capi",
                                    "-L" + capi, "-Wl,-rpath," + capi, "-lspate"], check=True)
                    for part in (options.only,) if options.only else PARTS:
                        getattr(bench, part)(mpi)
            finally:
                bench.unmount()
    if options.json:
        with open(options.json, "w") as f:
            json.dump(bench.tables, f, indent=1)


if __name__ == "__main__":
    main()
