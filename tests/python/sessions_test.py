#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package spate: how a session begins and ends, and its errors."""
import errno
import os
import pickle
import unittest

import spate
from session_fixture import Test


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
