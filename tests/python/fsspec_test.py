#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spate:// of fsspec: copy, get, put, move, open and transactions. Debian's fsspec brings no abstract tests."""
import datetime
import importlib.util
import json
import os
import pickle
import signal
import sys
import tempfile
import threading
import unittest
import warnings

if importlib.util.find_spec("fsspec") is None:
    print("needs python3-fsspec")
    sys.exit(77)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of fsspec itself
    import fsspec

TOP = "/fsspec"


class Test(unittest.TestCase):
    def setUp(self):
        self.fs = fsspec.filesystem("spate")
        self.fs.makedirs(TOP, exist_ok=True)

    def tearDown(self):
        self.fs.rm(TOP, recursive=True)

    def names(self, path=TOP):
        return self.fs.find(path)

    def test_it_is_found_by_its_name_alone(self):
        self.assertEqual(type(self.fs).__module__, "spate.fsspec")
        with fsspec.open("spate://fsspec/a/b/file.txt", "w") as file:
            file.write("text\n")
        with fsspec.open("spate:///fsspec/a/b/file.txt") as file:
            self.assertEqual((file.read(), file.size, file.path, file.mode), (b"text\n", 5, TOP + "/a/b/file.txt", "rb"))
        fs, path = fsspec.core.url_to_fs("spate://fsspec/a/")
        self.assertEqual((fs, path), (self.fs, TOP + "/a"))
        self.assertEqual(fs.unstrip_protocol(path), "spate://fsspec/a")
        self.assertEqual(fs._strip_protocol(["spate://", "/", "x/"]), ["/", "/", "/x"])

    def test_what_pyarrow_calls(self):
        """pyarrow.fs.FSSpecHandler makes these calls. Debian 12 has no pyarrow; programs_test.py has it where it is installed."""
        self.assertEqual(self.fs.protocol, "spate")
        self.fs.mkdir(TOP + "/a/b", create_parents=True)
        self.assertRaises(FileNotFoundError, self.fs.mkdir, TOP + "/none/b", create_parents=False)
        self.assertRaises(FileExistsError, self.fs.mkdir, TOP + "/a/b", create_parents=True)
        with self.fs.open(TOP + "/a/b/one", mode="wb") as out:
            self.assertEqual((out.write(memoryview(b"12345")), out.tell()), (5, 5))  # pyarrow.Buffer is no bytes either
            out.flush()
            self.assertFalse(out.closed)
        with self.fs.open(TOP + "/a/b/one", mode="ab") as out:
            out.write(b"67")
        with self.fs.open(TOP + "/a/b/one", mode="rb") as file:
            self.assertEqual((file.seek(0, 2), file.seek(3), file.read(2), file.read(-1)), (7, 3, b"45", b"67"))
        told = self.fs.info(TOP + "/a/b/one")
        self.assertEqual((told["type"], told["size"]), ("file", 7))
        self.assertIsInstance(told.get("mtime"), (float, datetime.datetime))
        found = self.fs.find(TOP + "/a", maxdepth=None, withdirs=True, detail=True)
        self.assertEqual({path: one["type"] for path, one in found.items() if path != TOP + "/a"}, {TOP + "/a/b": "directory", TOP + "/a/b/one": "file"})
        found = self.fs.find(TOP + "/a", maxdepth=1, withdirs=True, detail=True)
        self.assertEqual([path for path in found if path != TOP + "/a"], [TOP + "/a/b"])
        self.fs.copy(TOP + "/a/b/one", TOP + "/a/two")
        self.fs.mv(TOP + "/a/b", TOP + "/moved", recursive=True)
        self.assertEqual(sorted(self.fs.listdir(TOP, detail=False)), [TOP + "/a", TOP + "/moved"])
        self.assertEqual((self.fs.isfile(TOP + "/a/two"), self.fs.isdir(TOP + "/moved")), (True, True))
        self.assertRaises(IsADirectoryError, self.fs.rm, TOP + "/moved")
        self.fs.rm(TOP + "/a/two")
        self.fs.rm(TOP + "/moved", recursive=True)
        self.assertEqual(self.fs.listdir(TOP, detail=False), [TOP + "/a"])

    def test_info_and_listings(self):
        self.fs.pipe({TOP + "/b": b"22", TOP + "/a": b"1", TOP + "/d/c": b"333"})
        self.assertEqual(self.fs.ls(TOP, detail=False), [TOP + "/a", TOP + "/b", TOP + "/d"])
        self.assertEqual([(one["type"], one["size"]) for one in self.fs.ls(TOP)[:2]], [("file", 1), ("file", 2)])
        self.assertEqual(self.fs.ls(TOP)[1], self.fs.info("spate:/" + TOP + "/b"))
        self.assertEqual(self.fs.ls(TOP + "/a"), [self.fs.info(TOP + "/a")])
        self.assertEqual(self.fs.info("/")["type"], "directory")
        self.assertEqual(self.fs.glob(TOP + "/**/c"), [TOP + "/d/c"])
        self.assertEqual(self.fs.glob("spate:/" + TOP + "/[ab]"), [TOP + "/a", TOP + "/b"])
        self.assertEqual(self.fs.du(TOP), 6)
        for missing in (self.fs.ls, self.fs.info, self.fs.rm, self.fs.cat):
            self.assertRaises(FileNotFoundError, missing, TOP + "/none")
        self.assertFalse(self.fs.exists(TOP + "/none"))
        self.assertFalse(self.fs.isdir(TOP + "/a"))
        self.assertTrue(self.fs.isfile(TOP + "/a"))
        now = datetime.datetime.now(datetime.timezone.utc)
        self.assertLess(abs(self.fs.modified(TOP + "/a") - now), datetime.timedelta(minutes=10))
        self.assertLess(abs(self.fs.created(TOP + "/a") - now), datetime.timedelta(minutes=10))

    def test_links(self):
        self.fs.pipe(TOP + "/d/f", b"123")
        self.fs.native.symlink("d", TOP + "/link")
        self.fs.native.symlink("none", TOP + "/broken")
        self.assertEqual(self.fs.info(TOP + "/link")["type"], "directory")
        self.assertEqual(self.fs.info(TOP + "/link")["destination"], "d")
        self.assertEqual(self.fs.info(TOP + "/broken")["type"], "link")
        self.assertTrue(self.fs.lexists(TOP + "/broken"))
        self.assertFalse(self.fs.exists(TOP + "/broken"))
        self.assertEqual(self.names(), [TOP + "/broken", TOP + "/d/f", TOP + "/link"])
        self.fs.rm(TOP + "/link", recursive=True)
        self.assertEqual(self.fs.cat(TOP + "/d/f"), b"123")

    def test_contents(self):
        data = os.urandom(3 << 20)
        self.fs.pipe_file(TOP + "/f", data)
        self.assertEqual(self.fs.cat_file(TOP + "/f"), data)
        for start, end in ((0, 10), (5, None), (-7, None), (-7, -3), (None, -1), (10, 5), (1 << 30, None), (0, 1 << 40)):
            self.assertEqual(self.fs.cat_file(TOP + "/f", start=start, end=end), data[start:end], (start, end))
        self.assertEqual(self.fs.cat([TOP + "/f", "spate:/" + TOP + "/f"]), {TOP + "/f": data})
        self.assertEqual(self.fs.head(TOP + "/f", 3), data[:3])
        self.assertEqual(self.fs.tail(TOP + "/f", 3), data[-3:])
        self.assertEqual(self.fs.read_block(TOP + "/f", 100, 10), data[100:110])
        with self.fs.open(TOP + "/f", "rb", block_size=4096) as file:
            file.seek(1 << 20)
            self.assertEqual(file.read(5000), data[1 << 20:(1 << 20) + 5000])
            self.assertEqual(file.details["size"], len(data))
        with self.fs.open(TOP + "/f", "ab") as file:
            file.write(b"end")
        with self.fs.open(TOP + "/f", "r+b") as file:
            file.write(b"begin")
        self.assertEqual(self.fs.cat(TOP + "/f"), b"begin" + data[5:] + b"end")
        with self.fs.open(TOP + "/z", "wt", compression="gzip") as file:
            file.write("line\n" * 1000)
        self.assertLess(self.fs.size(TOP + "/z"), 1000)
        with self.fs.open(TOP + "/z", "rt", compression="gzip") as file:
            self.assertEqual(len(file.readlines()), 1000)
        self.assertRaises(ValueError, self.fs.open, TOP + "/f", "q")
        self.assertRaises(FileExistsError, self.fs.open, TOP + "/f", "xb")
        self.assertRaises(IsADirectoryError, self.fs.open, TOP, "wb")

    def test_directories_are_made_for_what_is_written_and_for_nothing_else(self):
        self.assertRaises(FileNotFoundError, self.fs.open, TOP + "/no/f", "rb")
        self.assertRaises(FileNotFoundError, self.fs.open, TOP + "/no/f", "r+b")
        self.assertFalse(self.fs.exists(TOP + "/no"))
        self.fs.touch(TOP + "/yes/f")
        self.assertTrue(self.fs.isfile(TOP + "/yes/f"))
        strict = fsspec.filesystem("spate", auto_mkdir=False)
        self.assertRaises(FileNotFoundError, strict.touch, TOP + "/no/f")
        self.assertRaises(FileExistsError, self.fs.mkdir, TOP + "/yes")
        self.assertRaises(FileNotFoundError, self.fs.mkdir, TOP + "/no/no", create_parents=False)
        self.fs.makedirs(TOP + "/yes", exist_ok=True)

    def test_touch_keeps_what_it_is_told_to_keep(self):
        self.fs.pipe(TOP + "/f", b"1")
        self.fs.native.utime(TOP + "/f", ns=(0, 0))
        self.fs.touch(TOP + "/f", truncate=False)
        self.assertEqual(self.fs.cat(TOP + "/f"), b"1")
        self.assertGreater(self.fs.info(TOP + "/f")["mtime"], 1e9)
        self.fs.touch(TOP + "/f")
        self.assertEqual(self.fs.size(TOP + "/f"), 0)

    def test_copies_moves_and_removals(self):
        self.fs.pipe({TOP + "/a/x": b"x", TOP + "/a/b/y": b"yy"})
        self.fs.cp(TOP + "/a/x", TOP + "/new/x")
        self.assertEqual(self.fs.cat(TOP + "/new/x"), b"x")
        self.fs.cp(TOP + "/a", TOP + "/copy", recursive=True)
        self.assertEqual(self.fs.cat(TOP + "/copy/b/y"), b"yy")
        self.fs.mv(TOP + "/a/x", TOP + "/moved/x")
        self.fs.mv(TOP + "/copy", TOP + "/moved/")
        self.fs.mv(TOP + "/a", TOP + "/moved", recursive=True)
        self.assertEqual(self.names(), [TOP + "/moved/" + name for name in ("a/b/y", "copy/b/y", "copy/x", "x")] + [TOP + "/new/x"])
        self.assertRaises(FileNotFoundError, self.fs.mv, TOP + "/none", TOP + "/x")
        self.assertRaises(IsADirectoryError, self.fs.rm, TOP + "/moved")
        self.fs.rm(TOP + "/moved/*", recursive=True)
        self.fs.rm([TOP + "/new/x"])
        self.assertEqual(self.names(), [])
        self.fs.rmdir(TOP + "/new")
        self.assertRaises(ValueError, self.fs.rm, "/", recursive=True)

    def test_trees_go_in_and_out(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/in")
            for name in ("in/a", "in/b"):
                with open(folder + "/" + name, "wb") as file:
                    file.write(name.encode() * 1000)
            self.fs.put(folder + "/in", TOP + "/tree", recursive=True)
            self.fs.get(TOP + "/tree", folder + "/out", recursive=True)
            with open(folder + "/out/b", "rb") as file:
                self.assertEqual(file.read(), b"in/b" * 1000)

    def test_a_transaction_is_seen_whole_or_not_at_all(self):
        self.fs.pipe(TOP + "/f", b"old")
        with self.fs.transaction:
            with self.fs.open(TOP + "/f", "wb") as file:
                file.write(b"new")
            with self.fs.open(TOP + "/d/g", "wb") as file:
                file.write(b"g")
            self.assertEqual(self.fs.cat(TOP + "/f"), b"old")
            self.assertFalse(self.fs.exists(TOP + "/d/g"))
            self.assertRaises(ValueError, self.fs.open, TOP + "/f", "ab")
            self.assertRaises(FileExistsError, self.fs.open, TOP + "/f", "xb")
        self.assertEqual(self.fs.cat(TOP + "/f"), b"new")
        try:
            with self.fs.transaction:
                with self.fs.open(TOP + "/f", "wb") as file:
                    file.write(b"never")
                raise KeyError
        except KeyError:
            pass
        self.assertEqual(self.fs.cat(TOP + "/f"), b"new")
        self.assertEqual(self.names(), [TOP + "/d/g", TOP + "/f"])

    def test_x_in_a_transaction_replaces_nothing_at_its_end_either(self):
        with self.assertRaises(FileExistsError):
            with self.fs.transaction:
                for name in ("/x", "/later"):
                    with self.fs.open(TOP + name, "xb") as file:
                        file.write(b"mine")
                self.fs.native.open(TOP + "/x", "xb").close()  # another program creates the file
        self.assertEqual(self.names(), [TOP + "/x"])  # and there is no temporary file
        self.assertEqual(self.fs.cat(TOP + "/x"), b"")
        self.fs.pipe(TOP + "/after", b"1")  # the transaction is over
        self.assertEqual(self.fs.cat(TOP + "/after"), b"1")
        self.fs.start_transaction()
        with self.fs.open(TOP + "/by_hand", "xb") as file:
            file.write(b"2")
        self.assertFalse(self.fs.exists(TOP + "/by_hand"))
        self.fs.end_transaction()
        self.assertEqual(self.fs.cat(TOP + "/by_hand"), b"2")

    def test_a_mapping(self):
        store = fsspec.get_mapper("spate:/" + TOP + "/map")
        store["a/0.0"] = b"0"
        store["a/0.1"] = b"1"
        self.assertEqual(sorted(store), ["a/0.0", "a/0.1"])
        self.assertEqual(store["a/0.1"], b"1")
        del store["a/0.0"]
        self.assertRaises(KeyError, store.__getitem__, "a/0.0")

    def test_instances_are_pickled_and_share_one_session(self):
        self.fs.pipe(TOP + "/f", b"1")
        same = pickle.loads(pickle.dumps(self.fs))
        self.assertEqual(same.cat(TOP + "/f"), b"1")
        self.assertEqual(json.loads(self.fs.to_json())["protocol"], "spate")
        found = []

        def look():
            found.append(fsspec.filesystem("spate"))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        self.assertIs(found[0].native, self.fs.native)
        elsewhere = fsspec.filesystem("spate", where=os.environ["SPATE_TEST_FOLDER"] + "/fs", settings={"client.deadline": "7s"})
        self.assertIsNot(elsewhere.native, self.fs.native)
        self.assertEqual(elsewhere.cat(TOP + "/f"), b"1")

    def test_a_fork_while_another_thread_connects(self):
        """The child has no thread that holds the lock."""
        self.fs.pipe(TOP + "/f", b"1")
        held, forked = threading.Event(), threading.Event()

        def hold():
            with sys.modules["spate.fsspec"]._lock:
                held.set()
                forked.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(20)  # ends a child that waits for ever
                code = 0 if self.fs.cat(TOP + "/f") == b"1" else 2
                self.fs.native.close()
            finally:
                os._exit(code)
        forked.set()
        thread.join()
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_forked_process_gets_a_session_of_its_own(self):
        self.fs.pipe(TOP + "/f", b"1")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if self.fs.cat(TOP + "/f") == b"1" else 2
                self.fs.native.close()
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(self.fs.cat(TOP + "/f"), b"1")


unittest.main()
