#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package spate: calls of open files, and bad input to them."""
import array
import errno
import fcntl
import io
import mmap
import os
import unittest

import spate
from session_fixture import Test


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


unittest.main()
