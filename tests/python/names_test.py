#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package spate: calls by path, and bad input to them."""
import contextlib
import errno
import os
import pathlib
import stat
import tempfile
import unittest

import spate
from session_fixture import Test


@contextlib.contextmanager
def before_first(call, act):
    """Runs `act()` before the first call of that name on any open file, as if another program did it."""
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


class Names(Test):
    def test_attributes_are_those_of_os(self):
        path = self.path("f")
        self.file("f").pwrite(b"123", 0)
        self.fs.chmod(path, 0o640)
        self.fs.utime(path, ns=(-1, 1_000_000_001))
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
            self.assertRaises(OverflowError, self.fs.utime, path, ns=(0, wrong))
            self.assertRaises(OverflowError, self.fs.utime, path, (0, wrong))
        self.assertRaises(TypeError, self.fs.utime, path, ns=(0, 1.5))
        for wrong in (float("nan"), float("inf")):
            self.assertRaises((ValueError, OverflowError), self.fs.utime, path, (0, wrong))
        self.assertRaises(ValueError, self.fs.utime, path, (0, 0), ns=(0, 0))
        self.assertEqual(self.fs.stat(path), before)
        for far in (-(1 << 62), 1 << 62):
            self.fs.utime(path, ns=(0, far))
            self.assertEqual(self.fs.stat(path).st_mtime_ns, far)

    def test_calls_take_what_those_of_os_take(self):
        """Each call is made with the same arguments on a local file, and gives the same."""
        self.file("f").pwrite(b"123", 0)
        path, moved = self.path("f"), self.path("moved")
        with tempfile.TemporaryDirectory() as folder:
            local, local_moved = folder + "/f", folder + "/moved"
            with open(local, "w", encoding="ascii") as file:
                file.write("123")
            for times in ((1_700_000_000, 1_700_000_001), (1.5, 1_700_000_000.25), (-1, -0.5)):
                self.fs.utime(path, times)
                os.utime(local, times)
                self.assertEqual(self.fs.stat(path).st_mtime_ns, os.stat(local).st_mtime_ns)
                self.assertEqual(self.fs.stat(path).st_atime_ns, os.stat(local).st_atime_ns)
            for calls, at, there in ((self.fs, path, moved), (os, local, local_moved)):
                self.assertIsInstance(calls.statvfs(at), os.statvfs_result)
                self.assertRaises(FileNotFoundError, calls.statvfs, there)
                calls.replace(at, there)
                calls.remove(there)
                self.assertRaises(FileNotFoundError, calls.remove, there)
                self.assertRaises(FileNotFoundError, calls.replace, at, there)

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
        """Whichever directory is exchanged, and at any moment."""
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


unittest.main()
