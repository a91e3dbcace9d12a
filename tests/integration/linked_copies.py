#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`spate cp -r` of a tree in which files have further names in far folders: they keep them, and a copy opens far fewer
files than the tree has folders."""
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


def main():
    with Cluster(io=1) as fs:
        fs.up()
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
