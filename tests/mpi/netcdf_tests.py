#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NetCDF's own parallel tests, from Debian's source package, which is built with each MPI for which HDF5 is installed. They write into their
working directory, which is /spate. Debian packages the library for Open MPI only."""
from mpi import *
from cluster import Cluster
from sources import built, need, unpacked

# The tests of nc_test4/run_par_test.sh and h5_test/run_par_tests.sh, and their ranks. That is 2, but tst_mode fails
# with more than one on every file system, and some accept 4 only. tst_nc4perf only measures, for ten minutes.
PROGRAMS = {"nc_test4": {"tst_mode": 1, "tst_mpi_parallel": 2, "tst_parallel": 2, "tst_parallel3": 2, "tst_parallel4": 2, "tst_parallel5": 4,
                         "tst_simplerw_coll_r": 2, "tst_parallel_zlib": 4, "tst_parallel_compress": 2, "tst_quantize_par": 4, "tst_parallel6": 2},
            "h5_test": {"tst_h_par": 2, "tst_h_par_compress": 2}}
WITHOUT = ["--disable-" + part for part in ("dap", "nczarr", "byterange", "libxml2", "shared", "examples", "filter-testing", "plugins")]


def words_of(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()


need("m4", "make")
ran = 0
with Cluster(io=3) as fs:
    fs.up()
    tree = unpacked("netcdf", "netcdf-c-", fs.root)
    for mpi in libraries():
        headers, folders = (words_of(["pkg-config", what, "hdf5-" + mpi]) for what in ("--cflags-only-I", "--libs-only-L"))
        if not folders:
            print("left out: hdf5-%s is not installed" % mpi)
            continue
        place = built(os.path.join(fs.root, mpi),
                      [tree + "/configure", "--quiet", "CC=mpicc." + mpi, "CPPFLAGS=" + " ".join(headers), "LDFLAGS=" + " ".join(folders), "CFLAGS=-O1 -w",
                       "--enable-parallel-tests", *WITHOUT],
                      ["make", "-s", "-j2"], *(["make", "-s", "-j2", "-C", group, *names] for group, names in PROGRAMS.items()))
        for group, names in PROGRAMS.items():
            for name, ranks in names.items():
                done = run(fs, mpi, ranks, "sh", "-c", "cd /spate && exec %s/%s/%s" % (place, group, name), timeout=900)
                said = done.stdout + done.stderr
                check(done.returncode == 0 and "Sorry" not in said, "%s, %d ranks, %s: exit %d\n%s" % (mpi, ranks, name, done.returncode, said[-4000:]))
                print("passed: %s %s %d" % (mpi, name, ranks), flush=True)
                ran += 1
        files = fs.spate("ls", "spate:/").decode().split()
        check("tst_parallel5.nc" in files and "tst_h_par.h5" in files, "the programs wrote elsewhere: %s" % files)
        for file in files:
            fs.spate("rm", "spate:/" + file)
    fs.fsck()
if ran == 0:
    skip("no parallel HDF5")
