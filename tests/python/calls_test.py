#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package spate: each group of calls, and bad input to them."""
import array
import contextlib
import errno
import fcntl
import io
import mmap
import os
import pathlib
import pickle
import stat
import unittest

import spate


@contextlib.contextmanager
def before_first(call, act):
    """Before the first call of that name on any open file, `act()` runs, as another program would."""
    calls = [act]

    def called(*args, **options):
        if calls:
            calls.pop()()
        return original(*args, **options)

    original = getattr(spate.File, call)
    setattr(spate.File, call, called)
    try:
        yield
    finally:
        setattr(spate.File, call, original)


class Test(unittest.TestCase):
    def setUp(self):
        self.fs = spate.connect()
        self.top = "/" + self.id()
        self.fs.mkdir(self.top)

    def tearDown(self):
        self.fs.rmtree(self.top)
        self.fs.close()

    def path(self, name):
        return self.top + "/" + name

    def file(self, name="f", flags=os.O_RDWR | os.O_CREAT):
        file = self.fs.open_file(self.path(name), flags)
        self.addCleanup(file.close)
        return file

    def fails(self, number, call, *args, **options):
        with self.assertRaises(OSError) as raised:
            call(*args, **options)
        self.assertEqual(errno.errorcode[raised.exception.errno], errno.errorcode[number])
        return str(raised.exception)


class Files(Test):
    def test_text_and_bytes_are_read_back(self):
        with self.fs.open(self.path("t"), "w", encoding="utf-8") as file:
            file.write("für\n" * 3)
        with self.fs.open(self.path("t"), encoding="utf-8") as file:
            self.assertEqual(list(file), ["für\n"] * 3)
        with self.fs.open(self.path("t"), "rb") as file:
            self.assertEqual(file.read(), "für\n".encode() * 3)
        with self.fs.open(self.path("t"), "ab") as file:
            self.assertEqual(file.tell(), 15)
            file.write(b"end")
        with self.fs.open(self.path("t"), "r+b") as file:
            file.seek(-3, os.SEEK_END)
            file.write(b"END")
            file.seek(0)
            self.assertEqual(file.read()[-4:], b"\nEND")
            file.truncate(2)
        self.assertEqual(self.fs.stat(self.path("t")).st_size, 2)

    def test_x_refuses_what_is_there(self):
        self.fs.open(self.path("x"), "x").close()
        with self.assertRaises(FileExistsError):
            self.fs.open(self.path("x"), "xb")

    def test_modes_are_kept_to(self):
        self.file("f").write(b"1")
        with self.fs.open(self.path("f"), "rb", 0) as file:
            self.assertIsInstance(file, io.RawIOBase)
            self.assertRaises(io.UnsupportedOperation, file.write, b"2")
            self.assertRaises(io.UnsupportedOperation, file.truncate, 0)
        with self.fs.open(self.path("f"), "ab", 0) as file:
            self.assertRaises(io.UnsupportedOperation, file.read)
        self.assertRaises(ValueError, file.write, b"closed")
        for mode in ("", "rw", "rbt", "rr", "q", "r+x"):
            self.assertRaises(ValueError, self.fs.open, self.path("f"), mode)
        self.assertRaises(ValueError, self.fs.open, self.path("f"), "rb", encoding="utf-8")
        self.assertRaises(ValueError, self.fs.open, self.path("f"), "r", 0)

    def test_reads_and_writes_at_offsets(self):
        file = self.file()
        data = os.urandom(5 << 20)
        self.assertEqual(file.pwrite(data, 3), len(data))
        self.assertEqual(file.pread(10, 0), bytes(3) + data[:7])
        self.assertEqual(file.pread(len(data), 3), data)
        self.assertEqual(file.pread(100, len(data)), data[-3:])
        self.assertEqual(file.pread(100, 1 << 30), b"")
        self.assertEqual(file.pread(0, 0), b"")
        self.assertEqual(file.stat().st_size, len(data) + 3)
        with self.fs.open(self.path("f"), "rb") as read:
            self.assertEqual(read.read(), bytes(3) + data)

    def test_every_kind_of_contiguous_memory_is_read_into(self):
        file = self.file()
        file.pwrite(bytes(range(64)), 0)
        for buffer in (bytearray(64), array.array("d", bytes(64)), mmap.mmap(-1, 64), memoryview(bytearray(64)).cast("I")):
            self.assertEqual(file.pread_into(buffer, 0), 64)
            self.assertEqual(bytes(memoryview(buffer).cast("B")), bytes(range(64)))
        part = bytearray(8)
        self.assertEqual(file.pread_into(memoryview(part)[2:5], 10), 3)
        self.assertEqual(part, b"\0\0\x0a\x0b\x0c\0\0\0")

    def test_memory_that_cannot_be_used_is_refused(self):
        file = self.file()
        file.pwrite(b"12345678", 0)
        self.assertRaises(BufferError, file.pread_into, b"12345678", 0)
        self.assertRaises(BufferError, file.pread_into, memoryview(bytearray(8))[::2], 0)
        self.assertRaises(TypeError, file.pread_into, "text", 0)
        self.assertRaises(TypeError, file.pwrite, "text", 0)
        self.assertRaises(TypeError, file.pwrite, 7, 0)

    def test_sizes_and_offsets_out_of_range_are_refused(self):
        file = self.file()
        self.fails(errno.EINVAL, file.pread, -1, 0)
        self.assertRaises((MemoryError, OverflowError), file.pread, (1 << 63) - 1, 0)
        for size in (1 << 63, (1 << 64) - 1, 1 << 70):
            self.assertRaises(OverflowError, file.pread, size, 0)
        for offset in (1 << 63, 1 << 70, -(1 << 70)):
            self.assertRaises(OverflowError, file.pread, 1, offset)
            self.assertRaises(OverflowError, file.pwrite, b"1", offset)
            self.assertRaises(OverflowError, file.truncate, offset)
        self.assertRaises(TypeError, file.pread, 1.0, 0)
        self.fails(errno.EINVAL, file.pread, 1, -1)
        self.fails(errno.EINVAL, file.pwrite, b"1", -1)
        self.fails(errno.EINVAL, file.truncate, -1)

    def test_lists_and_strides(self):
        file = self.file()
        file.pwrite(bytes(range(100)), 0)
        got = bytearray(5)
        self.assertEqual(file.read_list([(50, 2), (10, 3)], got), 5)
        self.assertEqual(got, bytes([50, 51, 10, 11, 12]))
        self.assertEqual(file.write_list([(0, 1), (99, 1)], b"\xaa\xbb"), 2)
        self.assertEqual(file.pread(1, 99), b"\xbb")
        pattern = spate.Strided(20, 2, [(2, 30), (2, 10)])
        got = bytearray(8)
        self.assertEqual(file.read_strided(pattern, got), 8)
        self.assertEqual(got, bytes([20, 21, 30, 31, 50, 51, 60, 61]))
        self.assertEqual(file.write_strided(pattern, bytes(8)), 8)
        self.assertEqual(file.pread(2, 60), b"\0\0")
        self.assertRaises(ValueError, file.read_strided, (0, 1, [(1, 1)] * 9), got)
        self.assertRaises(TypeError, file.read_strided, (0, 1), got)
        self.assertRaises(TypeError, file.read_list, [(0, -1)], got)
        self.fails(errno.EFBIG, file.read_list, [(1 << 63, 1 << 63)], got)

    def test_a_box_of_an_array(self):
        shape, start, count = (4, 5, 6), (1, 2, 3), (2, 3, 2)
        file = self.file()
        file.pwrite(bytes(7) + bytes(range(120)), 0)
        got = bytearray(12)
        self.assertEqual(file.read_strided(spate.box(shape, start, count, 1, offset=7), got), 12)
        self.assertEqual(list(got), [i * 30 + j * 6 + k for i in (1, 2) for j in (2, 3, 4) for k in (3, 4)])
        self.assertEqual(spate.box((10,), (4,), (2,), 8), spate.Strided(32, 16, []))
        for wrong in (((4, 5), (0,), (1, 1)), ((4,), (3,), (2,)), ((4,), (-1,), (2,)), ((), (), ())):
            self.assertRaises(ValueError, spate.box, *wrong, 1)

    def test_started_operations(self):
        file = self.file()
        data = os.urandom(8 << 20)
        writes = [file.pwrite_start(memoryview(data)[at:at + (1 << 20)], at) for at in range(0, len(data), 1 << 20)]
        self.assertEqual([write.wait() for write in writes], [1 << 20] * 8)
        buffer = bytearray(len(data))
        read = file.pread_start(buffer, 0)
        with self.assertRaises(BufferError):
            buffer.append(0)  # it is in use
        self.assertEqual(read.wait(), len(data))
        self.assertEqual(read.wait(), len(data))
        self.assertTrue(read.done())
        self.assertEqual(buffer, data)
        buffer.append(0)

    def test_a_failed_operation_tells_its_error_each_time(self):
        self.file("f").pwrite(b"1", 0)
        written = self.file("f", os.O_RDONLY).pwrite_start(b"2", 0)
        for _ in range(2):
            self.fails(errno.EBADF, written.wait)

    def test_an_operation_that_nobody_waits_for_keeps_its_memory(self):
        file = self.file()
        file.pwrite(os.urandom(1 << 20), 0)
        for _ in range(50):
            file.pread_start(bytearray(1 << 20), 0)

    def test_close_refuses_while_an_operation_is_under_way(self):
        file = self.fs.open_file(self.path("c"), os.O_RDWR | os.O_CREAT)
        started = file.pwrite_start(b"12", 0)
        self.fails(errno.EBUSY, file.close)
        self.assertFalse(file.closed)
        started.wait()
        file.close()
        self.assertTrue(file.closed)
        file.close()
        self.assertRaises(ValueError, file.pread, 1, 0)
        self.assertRaises(ValueError, file.stat)

    def test_copies(self):
        data = os.urandom(3 << 20)
        self.file("from").pwrite(data, 0)
        self.fs.copy(self.path("from"), self.path("to"))
        self.fs.copy(self.path("from"), self.path("to"))
        with self.fs.open(self.path("to"), "rb") as file:
            self.assertEqual(file.read(), data)
        self.fs.link(self.path("from"), self.path("same"))
        self.assertRaises(ValueError, self.fs.copy, self.path("from"), self.path("same"))
        self.assertEqual(self.fs.stat(self.path("from")).st_size, len(data))

    def test_layouts(self):
        with self.fs.open(self.path("wide"), "wb", layout=spate.Layout(strip_bytes=8192, target_count=3)) as file:
            self.assertEqual(file.raw.file.layout()[:2], (8192, 3))
            first = file.raw.file.layout()[2]
        with self.fs.open_file(self.path("one"), os.O_CREAT | os.O_RDWR, layout=(0, 1, first, "simple_stripe")) as file:
            self.assertEqual(file.layout()[1:], (1, first, "simple_stripe"))
        self.fails(errno.EINVAL, self.fs.open_file, self.path("no"), os.O_CREAT, layout=(0, 1, 0, "nonsense"))

    def test_locks_hold_between_sessions(self):
        file = self.file()
        file.flock(fcntl.LOCK_EX)
        with spate.connect() as other, other.open_file(self.path("f")) as second:
            self.fails(errno.EAGAIN, second.flock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            file.flock(fcntl.LOCK_UN)
            second.flock(fcntl.LOCK_SH | fcntl.LOCK_NB)

    def test_an_inode_is_opened_without_its_name(self):
        file = self.file()
        file.pwrite(b"here", 0)
        inode = file.stat().st_ino
        self.fs.rename(self.path("f"), self.path("g"))
        with self.fs.open_inode(inode) as same:
            self.assertEqual(same.pread(4, 0), b"here")
        self.fails(errno.ESTALE, self.fs.open_inode, 1 << 60)

    def test_holes(self):
        file = self.file()
        file.allocate(0, 0, 1 << 20)
        self.assertEqual(file.stat().st_size, 1 << 20)
        file.truncate(1 << 30)
        file.fsync()
        self.assertEqual(file.seek(0, os.SEEK_END), 1 << 30)


class Names(Test):
    def test_attributes_are_those_of_os(self):
        path = self.path("f")
        self.file("f").pwrite(b"123", 0)
        self.fs.chmod(path, 0o640)
        self.fs.utime(path, (-1, 1_000_000_001))
        status = self.fs.stat(path)
        self.assertIsInstance(status, os.stat_result)
        self.assertEqual((stat.filemode(status.st_mode), status.st_size, status.st_nlink), ("-rw-r-----", 3, 1))
        self.assertEqual((status.st_atime_ns, status.st_mtime_ns, status.st_mtime), (-1, 1_000_000_001, 1.000000001))
        self.assertEqual((status.st_uid, status.st_gid), (os.getuid(), os.getgid()))
        self.fs.utime(path)
        self.assertGreater(self.fs.stat(path).st_mtime, 1e9)
        self.fs.chown(path, -1, os.getgid())
        self.assertTrue(self.fs.access(path, os.R_OK))
        self.assertFalse(self.fs.access(self.path("none"), os.R_OK))
        self.fs.truncate(path, 1)
        self.assertEqual(self.fs.stat(path).st_size, 1)

    def test_owners_and_times_that_do_not_exist_are_refused_and_not_cut(self):
        path = self.path("f")
        self.file("f")
        before = self.fs.stat(path)
        for wrong in (1 << 32, (1 << 32) + 5, (1 << 32) - 1, -2, 1 << 70, -(1 << 70)):
            self.assertRaises(OverflowError, self.fs.chown, path, wrong, -1)
            self.assertRaises(OverflowError, self.fs.chown, path, -1, wrong)
        for wrong in (1 << 100, -(1 << 100)):
            self.assertRaises(OverflowError, self.fs.utime, path, (0, wrong))
        self.assertRaises(TypeError, self.fs.utime, path, (0, 1.5))
        self.assertEqual(self.fs.stat(path), before)
        for far in (-(1 << 62), 1 << 62):
            self.fs.utime(path, (0, far))
            self.assertEqual(self.fs.stat(path).st_mtime_ns, far)

    def test_the_umask_is_the_sessions_own(self):
        self.file("f")
        self.assertEqual(stat.S_IMODE(self.fs.stat(self.path("f")).st_mode), 0o644)
        with spate.connect(umask=0o077) as other:
            other.mkdir(self.path("d"))
        self.assertEqual(stat.S_IMODE(self.fs.stat(self.path("d")).st_mode), 0o700)

    def test_links(self):
        self.fs.symlink("f", self.path("s"))
        self.assertEqual(self.fs.readlink(self.path("s")), "f")
        self.assertTrue(stat.S_ISLNK(self.fs.lstat(self.path("s")).st_mode))
        self.assertFalse(self.fs.exists(self.path("s")))
        self.file("f")
        self.assertTrue(self.fs.isfile(self.path("s")))
        long = "x/" * 2000
        self.fs.symlink(long, self.path("long"))
        self.assertEqual(self.fs.readlink(self.path("long")), long)
        self.fails(errno.EINVAL, self.fs.readlink, self.path("f"))

    def test_directories(self):
        self.fs.makedirs(self.path("a/b/c"))
        self.assertRaises(FileExistsError, self.fs.makedirs, self.path("a/b/c"))
        self.fs.makedirs(self.path("a/b/c"), exist_ok=True)
        self.file("a/f")
        self.assertRaises(FileExistsError, self.fs.makedirs, self.path("a/f"), exist_ok=True)
        self.assertRaises(NotADirectoryError, self.fs.makedirs, self.path("a/f/g"))
        self.assertEqual(sorted(self.fs.listdir(self.path("a"))), ["b", "f"])
        found = {entry.name: entry for entry in self.fs.scandir(self.path("a"))}
        self.assertTrue(found["b"].is_dir())
        self.assertTrue(found["f"].is_file())
        self.assertEqual(found["f"].path, self.path("a/f"))
        self.assertEqual(found["f"].stat.st_ino, self.fs.stat(self.path("a/f")).st_ino)
        self.assertEqual(list(self.fs.walk(self.top)),
                         [(self.top, ["a"], []), (self.path("a"), ["b"], ["f"]), (self.path("a/b"), ["c"], []), (self.path("a/b/c"), [], [])])
        self.fails(errno.ENOTEMPTY, self.fs.rmdir, self.path("a"))

    def test_a_large_directory_is_listed_whole(self):
        for number in range(2500):
            self.fs.mkdir(self.path("%d" % number))
        self.assertEqual(sorted(map(int, self.fs.listdir(self.top))), list(range(2500)))
        self.assertEqual(len({entry.stat.st_ino for entry in self.fs.scandir(self.top)}), 2500)

    def test_rmtree_follows_no_link(self):
        self.fs.makedirs(self.path("kept/in"))
        self.fs.mkdir(self.path("gone"))
        self.fs.symlink("../kept", self.path("gone/link"))
        self.fs.rmtree(self.path("gone"))
        self.assertTrue(self.fs.isdir(self.path("kept/in")))
        self.file("f")
        self.assertRaises(NotADirectoryError, self.fs.rmtree, self.path("f"))

    def test_rmtree_refuses_a_link_to_a_directory(self):
        self.fs.makedirs(self.path("kept/in"))
        self.fs.symlink("kept", self.path("link"))
        for name in ("link", "link/", "link//"):
            self.assertRaises(OSError, self.fs.rmtree, self.path(name))
        self.assertRaises(FileNotFoundError, self.fs.rmtree, self.path("none"))
        self.assertTrue(self.fs.isdir(self.path("kept/in")))
        self.assertEqual(self.fs.readlink(self.path("link")), "kept")

    def test_rmtree_does_not_follow_a_link_that_takes_the_place_of_a_directory(self):
        """Whichever directory is exchanged, and whenever."""
        for call in ("open_at", "read_entries", "unlink_at"):
            for level in ("gone/a", "gone/a/b", "gone/a/b/c"):
                with self.subTest(call=call, level=level):
                    top = self.path(call + level.replace("/", "."))
                    self.fs.makedirs(top + "/gone/a/b/c")
                    self.fs.makedirs(top + "/kept/b/c/in")
                    self.fs.mkdir(top + "/kept/c")

                    def exchange():
                        self.fs.rename(top + "/" + level, top + "/moved")
                        self.fs.symlink(top + "/kept", top + "/" + level)

                    with before_first(call, exchange), contextlib.suppress(OSError):
                        self.fs.rmtree(top + "/gone")
                    self.assertEqual(sorted(one[0] for one in self.fs.walk(top + "/kept")),
                                     [top + "/kept" + below for below in ("", "/b", "/b/c", "/b/c/in", "/c")])

    def test_rmtree_goes_on_where_others_remove(self):
        for call in ("open_at", "read_entries", "unlink_at"):
            with self.subTest(call=call):
                top = self.path(call)
                self.fs.makedirs(top + "/a/b")
                self.fs.makedirs(top + "/c")

                def remove():
                    self.fs.rmdir(top + "/a/b")
                    self.fs.rmdir(top + "/a")

                with before_first(call, remove):
                    self.fs.rmtree(top)
                self.assertFalse(self.fs.exists(top))

    def test_walk_names_a_link_to_a_directory_as_os_walk_does(self):
        self.fs.makedirs(self.path("d/in"))
        self.fs.symlink("d", self.path("link"))
        self.fs.symlink("none", self.path("broken"))
        walked = [(top, sorted(folders), files) for top, folders, files in self.fs.walk(self.top)]
        self.assertEqual(walked, [(self.top, ["d", "link"], ["broken"]), (self.path("d"), ["in"], []), (self.path("d/in"), [], [])])

    def test_names_that_are_no_text_keep_their_bytes(self):
        name = b"\xff\xfe\n"
        self.fs.open_file(os.fsencode(self.top) + b"/" + name, os.O_CREAT).close()
        self.assertEqual(self.fs.listdir(self.top), [os.fsdecode(name)])
        self.fs.unlink(pathlib.PurePosixPath(self.top, os.fsdecode(name)))
        self.assertRaises(ValueError, self.fs.stat, "a\0b")
        self.assertRaises(TypeError, self.fs.stat, 7)
        self.fails(errno.ENAMETOOLONG, self.fs.stat, "x" * 300)

    def test_renames(self):
        self.file("a").pwrite(b"a", 0)
        self.file("b").pwrite(b"bb", 0)
        self.fails(errno.EEXIST, self.fs.rename, self.path("a"), self.path("b"), 1)
        self.fs.rename(self.path("a"), self.path("b"), 2)
        self.assertEqual(self.fs.stat(self.path("a")).st_size, 2)
        self.fs.rename(self.path("a"), self.path("b"))
        self.assertFalse(self.fs.exists(self.path("a")))

    def test_extended_attributes(self):
        path = self.path("f")
        self.file("f")
        value = os.urandom(3000)
        self.fs.setxattr(path, "user.large", value)
        self.fs.setxattr(path, "user.empty", b"")
        self.assertEqual(self.fs.getxattr(path, "user.large"), value)
        self.assertEqual(self.fs.getxattr(path, "user.empty"), b"")
        self.assertLessEqual({"user.large", "user.empty"}, set(self.fs.listxattr(path)))
        self.fs.removexattr(path, "user.large")
        self.fails(errno.ENODATA, self.fs.getxattr, path, "user.large")


class Sessions(Test):
    def test_errors_say_what_and_where(self):
        self.assertIn("/nothing/here", self.fails(errno.ENOENT, self.fs.stat, "/nothing/here"))
        self.assertRaises(FileNotFoundError, self.fs.stat, "/nothing/here")

    def test_a_file_system_that_is_not_there(self):
        with self.assertRaises(OSError) as raised:
            spate.connect("/no/such/folder")
        self.assertIn("/no/such/folder", str(raised.exception))

    def test_settings(self):
        with spate.connect(settings={"client.attribute_cache": "all"}) as fs:
            self.assertTrue(fs.isdir("/"))
        with self.assertRaises(OSError) as raised:
            spate.connect(settings={"client.nonsense": "1"})
        self.assertIn("client.nonsense", str(raised.exception))
        self.assertRaises(TypeError, spate.connect, settings={"client.deadline": 5})

    def test_a_closed_session_is_refused_and_its_files_go_on(self):
        fs = spate.connect()
        file = fs.open_file(self.path("f"), os.O_RDWR | os.O_CREAT)
        fs.close()
        fs.close()
        self.assertTrue(fs.closed)
        self.assertRaises(ValueError, fs.stat, "/")
        self.assertEqual(file.pwrite(b"still", 0), 5)
        file.close()

    def test_statvfs_and_sync(self):
        self.fs.sync()
        told = self.fs.statvfs()
        self.assertIsInstance(told, os.statvfs_result)
        self.assertGreater(told.f_blocks * told.f_frsize, 1 << 20)

    def test_nothing_of_it_is_pickled(self):
        self.assertRaises(TypeError, pickle.dumps, self.fs)
        self.assertRaises(TypeError, pickle.dumps, self.file())

    def test_what_was_not_made_by_a_constructor_is_refused(self):
        self.assertRaises(TypeError, spate.File)
        self.assertRaises(TypeError, spate.Operation)
        self.assertRaises(TypeError, spate.File.pread, self.fs, 1, 0)
        self.assertRaises(TypeError, spate.FileSystem.stat, object(), "/")


unittest.main()
