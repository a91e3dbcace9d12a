#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate cp -r` of a tree in which files have further names in far folders: they keep them, and a copy opens far fewer
files than the tree has folders. `spate cp` of symbolic links that are named: it follows them, and with -r copies them."""
import json
import os
import resource
import subprocess

from cluster import SPATE, Cluster, check

FOLDERS = 600
MOST = 256  # open files: up to 128 are copied at once, while up to 64 folders are read


def make_tree(tree):
    for number in range(FOLDERS):
        first, second = "%s/first/%d/d" % (tree, number), "%s/second/%d" % (tree, number)
        os.makedirs(first)
        os.makedirs(second)
        with open(first + "/f", "wb") as file:
            file.write(b"%d" % number)
        os.link(first + "/f", second + "/f")


def copy(fs, source, target):
    done = subprocess.run([SPATE, "cp", "-r", source, target], env=fs.env, capture_output=True, text=True, timeout=120, check=False,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (MOST, MOST)))
    check(done.returncode == 0, "cp -r %s: exit %d, %s" % (source, done.returncode, done.stderr[-300:]))


def named_links(fs):
    content, old = os.urandom(70_000), 978307200
    at = fs.root + "/named/"
    os.makedirs(at + "folder")
    with open(at + "folder/file", "wb") as file:
        file.write(content)
    os.chmod(at + "folder/file", 0o640)
    os.utime(at + "folder/file", (old, old))
    os.symlink("folder/file", at + "link")
    os.symlink("nowhere", at + "dangling")
    os.symlink("folder", at + "to_folder")
    fs.spate("cp", at + "link", "spate:/in")
    fs.spate("ln", "-s", "in", "spate:/inner")
    fs.spate("cp", "spate:/inner", "spate:/within_link")
    fs.spate("cp", "spate:/inner", at + "out")
    for path in ("spate:/in", "spate:/within_link"):
        st = stat(fs, path)
        check((st["type"], st["mtime_ns"], st["mode"]) == ("file", old * 10**9, "0640"), "%s: %s" % (path, st))
        check(fs.spate("cat", path) == content, path + " differs")
    with open(at + "out", "rb") as file:
        check(file.read() == content and not os.path.islink(at + "out"), "the copy out of a named link")
    check("no such file" in fs.fails("cp", at + "dangling", "spate:/dangling"), "a link to nothing is copied")
    check("is a directory: use -r" in fs.fails("cp", at + "to_folder", "spate:/folder"), "a link to a directory is copied")
    fs.spate("cp", "-r", at + "link", "spate:/as_link")
    check(stat(fs, "spate:/as_link")["type"] == "symlink", "with -r a named link is not copied as a link")


def stat(fs, path):
    at = json.loads(fs.spate("stat", "--json", path))
    return at[0] if isinstance(at, list) else at


def main():
    with Cluster(io=1) as fs:
        fs.up()
        named_links(fs)
        make_tree(fs.root + "/tree")
        copy(fs, fs.root + "/tree", "spate:/tree")
        copy(fs, "spate:/tree", "spate:/within")
        copy(fs, "spate:/within", fs.root + "/out")
        for number in range(FOLDERS):
            first, second = ("%s/out/%s" % (fs.root, path % number) for path in ("first/%d/d/f", "second/%d/f"))
            with open(second, "rb") as file:
                check(os.path.samefile(first, second) and file.read() == b"%d" % number, "%s and %s are not one file" % (first, second))
        fs.fsck()


main()
