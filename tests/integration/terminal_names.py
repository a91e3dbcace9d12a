#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whichever command prints a name that another user chose, characters that would control the terminal are replaced. A
pipe gets the exact names from `spate sum` and `find -print0`, since programs read them."""
import os
import pty
import subprocess
import sys

from cluster import SPATE, Cluster, check

NAMES = [b"\x1b]0;title\x07", b"clear\x1b[2J", b"two\nlines", b"\xc2\x9b2Jc1", b"raw\x9b2J", b"back\x08\x08", b"turned\xe2\x80\xaegnp", b"\xff"]
NAMES = [os.fsdecode(name) for name in NAMES]
HARMFUL = [b"\x1b", b"\x07", b"\x08", b"\x9b2J", b"\xe2\x80\xae", b"\xff", b"two\nlines"]


def on_terminal(fs, *args):
    """Returns what `spate ARGS` writes to a terminal and to standard error."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen([SPATE, *args], env=fs.env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    os.close(ours)
    errors = done.stderr.read()
    done.wait(timeout=60)
    return text.replace(b"\r\n", b"\n"), errors


def commands_on(root, tree, local):
    """Returns all commands that print names, with arguments that contain some or that fail."""
    yield from (("ls", tree), ("ls", "-l", tree), ("ls", "--json", tree), ("tree", tree), ("find", tree), ("du", "-a", tree), ("sum", tree), ("sum", local),
                ("sum", "--check", root + "/sums", tree), ("cp", "-r", "-v", tree, root + "/out"), ("cp", "-r", "-v", local, "spate:/in"),
                ("cp", "-r", tree, local + "/" + NAMES[0]), ("rm", "-r", "-v", "spate:/in"), ("fsck",))
    for name in NAMES:
        path, missing = tree + "/" + name, tree + "/" + name + "/missing"
        yield from (("stat", path), ("stat", tree + "/link-to-" + name), ("stat", missing), ("ls", missing), ("getstripe", path), ("head", path, path), ("cat", missing),
                    ("cp", missing, root), ("mkdir", path), ("rm", missing), ("mv", missing, path), (name,))


def main():
    with Cluster(io=1) as fs:
        fs.up()
        tree, local = "spate:/tree", os.path.join(fs.root, "local")
        fs.spate("mkdir", tree)
        os.mkdir(local)
        for name in NAMES:
            fs.spate("put", tree + "/" + name, input=b"x")
            fs.spate("ln", "-s", name, tree + "/link-to-" + name)
            with open(os.path.join(local, name), "wb") as f:
                f.write(b"y")
        sums = fs.spate("sum", tree)
        check(b"clear\x1b[2J" in sums, "a pipe gets other names than sha256sum reads")
        with open(fs.root + "/sums", "wb") as f:
            f.write(sums)
        check(fs.spate("find", tree, "-name", "clear*", "-print0") == b"spate:/tree/clear\x1b[2J\0", "-print0")
        for command in commands_on(fs.root, tree, local):
            text, errors = on_terminal(fs, *command)
            for harm in HARMFUL:
                check(harm not in text, "%s shows %r: %r" % (command, harm, text))
                # A message may have several lines, so a newline is no harm.
                check(harm not in errors or b"\n" in harm, "%s says %r: %r" % (command, harm, errors))
            check(text or errors or command[0] in ("cp", "rm"), "%s says nothing" % (command,))


sys.exit(main())
