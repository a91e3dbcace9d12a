# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of calls: a session, and a new directory for each test."""
import errno
import os
import unittest

import spate


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
