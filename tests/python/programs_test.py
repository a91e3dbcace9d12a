#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pandas, dask, zarr, xarray and pyarrow, unchanged, open spate://path. Those that are not installed are skipped."""
import importlib.util
import unittest

TOP = "spate://programs/"


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, "not installed: %s" % missing)


class Test(unittest.TestCase):
    @needs("pandas")
    def test_pandas(self):
        import pandas
        table = pandas.DataFrame({"a": range(1000), "b": ["x%d" % i for i in range(1000)]})
        for name in ("t.csv", "t.csv.gz"):
            table.to_csv(TOP + name, index=False)
            self.assertTrue(pandas.read_csv(TOP + name).equals(table))
        table.to_json(TOP + "t.json")
        self.assertEqual(len(pandas.read_json(TOP + "t.json")), 1000)
        table.to_pickle(TOP + "t.pickle")
        self.assertTrue(pandas.read_pickle(TOP + "t.pickle").equals(table))

    @needs("pandas", "pyarrow")
    def test_pyarrow(self):
        import pandas
        table = pandas.DataFrame({"a": range(1000)})
        table.to_parquet(TOP + "t.parquet")
        self.assertTrue(pandas.read_parquet(TOP + "t.parquet").equals(table))

    @needs("pyarrow", "fsspec")
    def test_pyarrow_by_its_own_file_system(self):
        import fsspec
        import pyarrow
        import pyarrow.dataset
        import pyarrow.fs
        files = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("spate")))
        table = pyarrow.table({"a": list(range(1000)), "part": [i % 4 for i in range(1000)]})
        pyarrow.dataset.write_dataset(table, "/programs/arrow", format="parquet", partitioning=["part"], filesystem=files)
        found = files.get_file_info(pyarrow.fs.FileSelector("/programs/arrow", recursive=True))
        self.assertEqual(len([one for one in found if one.type == pyarrow.fs.FileType.Directory]), 4)
        read = pyarrow.dataset.dataset("/programs/arrow", format="parquet", partitioning=["part"], filesystem=files).to_table()
        self.assertEqual(sum(read["a"].to_pylist()), sum(range(1000)))
        files.delete_dir("/programs/arrow")
        self.assertEqual(files.get_file_info("/programs/arrow").type, pyarrow.fs.FileType.NotFound)

    @needs("dask", "pandas")
    def test_dask(self):
        import dask
        import dask.dataframe
        import pandas
        table = pandas.DataFrame({"a": range(1000)})
        with dask.config.set(scheduler="threads"):
            dask.dataframe.from_pandas(table, npartitions=4).to_csv(TOP + "parts/*.csv", index=False)
            self.assertEqual(int(dask.dataframe.read_csv(TOP + "parts/*.csv").a.sum().compute()), sum(range(1000)))

    @needs("dask", "numpy", "zarr")
    def test_dask_arrays_in_zarr(self):
        import dask
        import dask.array
        with dask.config.set(scheduler="threads"):
            dask.array.ones((300, 300), chunks=(100, 100)).to_zarr(TOP + "ones.zarr")
            self.assertEqual(float(dask.array.from_zarr(TOP + "ones.zarr").sum().compute()), 90000.0)

    @needs("zarr", "numpy")
    def test_zarr(self):
        import numpy
        import zarr
        array = zarr.open(TOP + "a.zarr", mode="w", shape=(100, 100), chunks=(10, 10), dtype="f8")
        array[:] = numpy.arange(10000).reshape(100, 100)
        self.assertEqual(float(zarr.open(TOP + "a.zarr", mode="r")[7, 3]), 703.0)

    @needs("xarray", "zarr", "numpy")
    def test_xarray(self):
        import numpy
        import xarray
        data = xarray.Dataset({"t": (("x", "y"), numpy.arange(6.0).reshape(2, 3))})
        data.to_zarr(TOP + "x.zarr")
        self.assertTrue(xarray.open_zarr(TOP + "x.zarr", consolidated=True).equals(data))


unittest.main()
