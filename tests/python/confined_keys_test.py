#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The package spate with a user's key that is confined to one directory (docs/security.md, "Keys for one directory")."""
import errno
import os
import subprocess
import unittest

import spate
from session_fixture import Test

USER = 65504  # no account has it


class ConfinedKeys(Test):
    def setUp(self):
        """A tree in which every mode lets everybody in: only the key keeps its holder back."""
        super().setUp()
        for name in ("", "/data", "/data/sub", "/other"):
            self.fs.makedirs(self.top + name, exist_ok=True)
            self.fs.chmod(self.top + name, 0o777)
        for name in ("data/f", "other/g"):
            with self.fs.open(self.path(name), "w") as file:
                file.write(name)
            self.fs.chmod(self.path(name), 0o666)
        self.key = os.path.join(os.environ["SPATE_TEST_FOLDER"], self.id() + ".key")
        subprocess.run([os.environ["SPATE_BIN"] + "/spate", "key", "issue", "--uid", str(USER), "--gid", str(USER), "--path", self.path("data"),
                        "-o", self.key], check=True, stdout=subprocess.DEVNULL, timeout=60)
        self.settings = {"fs.client_key_file": self.key}
        self.user = spate.connect(settings=self.settings)
        self.addCleanup(self.user.close)

    def test_everything_works_below_the_directory(self):
        self.assertEqual(self.user.stat(self.path("data/f")).st_size, 6)
        with self.user.open(self.path("data/new"), "wb") as file:
            file.write(b"12345")
            file.flush()
            self.assertEqual(self.user.stat(self.path("data/new")).st_size, 5, "a file that is being written")
        self.assertEqual(self.user.stat(self.path("data/new")).st_uid, USER)
        self.user.rename(self.path("data/new"), self.path("data/sub/new"))
        self.user.copy(self.path("data/sub/new"), self.path("data/copy"))
        with self.user.open(self.path("data/copy"), "rb") as file:
            self.assertEqual(file.read(), b"12345")
        found = list(self.user.walk(self.path("data")))
        self.assertEqual([(top, sorted(names)) for top, _, names in found], [(self.path("data"), ["copy", "f"]), (self.path("data/sub"), ["new"])])
        self.user.rmtree(self.path("data/sub"))
        self.assertEqual(sorted(self.user.listdir(self.path("data"))), ["copy", "f"])

    def test_nothing_else_can_be_reached(self):
        other, beside = self.path("other"), self.path("other/g")
        self.assertTrue(self.user.isdir("/") and self.user.isdir(self.top), "the way to the directory")
        for call, *arguments in (
                (self.user.listdir, "/"), (self.user.listdir, self.top), (self.user.listdir, other), (self.user.stat, other), (self.user.stat, beside),
                (self.user.stat, self.path("none")), (self.user.stat, self.path("data/../other/g")), (self.user.open, beside), (self.user.open, self.path("new"), "w"),
                (self.user.mkdir, self.path("new")), (self.user.remove, beside), (self.user.chmod, self.top, 0o700), (self.user.rename, self.path("data"), self.path("moved")),
                (self.user.rename, self.path("data/f"), self.path("other/f")), (self.user.rename, beside, self.path("data/g")),
                (self.user.link, beside, self.path("data/g")), (self.user.copy, beside, self.path("data/g"))):
            self.fails(errno.EACCES, call, *arguments)
        self.user.symlink("../other/g", self.path("data/out"))
        self.fails(errno.EACCES, self.user.open, self.path("data/out"))
        self.assertEqual(sorted(self.fs.listdir(self.top)), ["data", "other"])
        self.assertEqual(self.fs.stat(self.top).st_mode & 0o777, 0o777)
        with self.fs.open(beside) as file:
            self.assertEqual(file.read(), "other/g")

    def test_what_is_moved_away_can_be_used_only_while_it_is_open(self):
        file = self.user.open_file(self.path("data/f"), os.O_RDONLY)
        self.fs.rename(self.path("data/f"), self.path("other/f"))
        self.assertEqual(file.pread(10, 0), b"data/f")
        file.close()
        self.fails(errno.EACCES, self.user.open_file, self.path("other/f"), os.O_RDONLY)


unittest.main()
