#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands that look at or change names and layouts: du, ln, rm -f, mv -n and -x, setstripe and getstripe."""
import json
import os

from cluster import Cluster, check


def says(text, *words):
    for word in words:
        check(word in text, "%r is not in: %s" % (word, text))


def links(fs):
    fs.spate("put", "spate:/one", input=b"first")
    fs.spate("ln", "spate:/one", "spate:/two")
    check(json.loads(fs.spate("stat", "--json", "spate:/two"))[0]["links"] == 2, "ln makes no second name")
    fs.spate("ln", "-s", "two", "spate:/three")
    check(fs.spate("cat", "spate:/three") == b"first", "the symbolic link does not lead on")
    says(fs.fails("ln", "spate:/one", "spate:/two"), "spate:/two", "exist")
    fs.spate("rm", "spate:/one", "spate:/three")
    check(fs.spate("cat", "spate:/two") == b"first", "the other name has lost the content")


def removing(fs):
    says(fs.fails("rm", "spate:/none"), "spate:/none")
    fs.spate("rm", "-f", "spate:/none")
    fs.spate("rm", "-f", "spate:/none", "spate:/two")
    check(fs.run("stat", "spate:/two").returncode == 1, "rm -f removes nothing")


def moving(fs):
    for name in ("a", "b"):
        fs.spate("put", "spate:/" + name, input=name.encode())
    says(fs.fails("mv", "-n", "spate:/a", "spate:/b"), "exist")
    check(fs.spate("cat", "spate:/a") == b"a" and fs.spate("cat", "spate:/b") == b"b", "mv -n has changed something")
    fs.spate("mv", "-x", "spate:/a", "spate:/b")
    check(fs.spate("cat", "spate:/a") == b"b" and fs.spate("cat", "spate:/b") == b"a", "mv -x does not exchange")
    says(fs.fails("mv", "-x", "spate:/a", "spate:/none"), "spate:/")
    fs.spate("mv", "-n", "spate:/a", "spate:/c")
    check(fs.spate("cat", "spate:/c") == b"b", "mv -n to a new name")
    fs.spate("rm", "spate:/b", "spate:/c")


def layouts(fs):
    fs.spate("mkdir", "spate:/big")
    fs.spate("setstripe", "-S", "64K", "-c", "2", "spate:/big")
    told = json.loads(fs.spate("getstripe", "--json", "spate:/big"))[0]
    check(told["strip_bytes"] == "65536" and told["strip_count"] == "2", "getstripe of the directory: %s" % told)
    fs.spate("put", "spate:/big/file", input=os.urandom(300000))
    told = json.loads(fs.spate("getstripe", "--json", "spate:/big/file"))[0]
    check(told["strip_bytes"] == 65536 and len(told["slots"]) == 2, "getstripe of the file: %s" % told)
    says(fs.spate("getstripe", "spate:/big/file").decode(), "spate:/big/file", "2 targets")
    says(fs.fails("setstripe", "-c", "1", "spate:/big/file"), "spate:/big/file", "layout")
    fs.spate("setstripe", "-c", "1", "spate:/single")
    check(len(json.loads(fs.spate("getstripe", "--json", "spate:/single"))[0]["slots"]) == 1, "setstripe -c 1 on a new file")


def usage(fs):
    told = json.loads(fs.spate("du", "--json", "spate:/big"))[0]
    check(told["size"] == 300000 and told["objects"] == 2, "du: %s" % told)
    says(fs.spate("du", "spate:/").decode(), "spate:/big\n", "spate:/\n")
    check(len(fs.spate("du", "-s", "spate:/").splitlines()) == 1, "du -s prints more than the total")


with Cluster(io=3) as fs:
    fs.up()
    links(fs)
    removing(fs)
    moving(fs)
    layouts(fs)
    usage(fs)
