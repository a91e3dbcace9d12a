#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs fsck, and fsck --repair, while clients make, write, rename and remove files. It finds no damage and does none."""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import CLEAN, Checked, check, make_tree, same_tree  # noqa: E402

SECONDS = float(os.environ.get("FSCK_LIVE_SECONDS", "6"))


def main():
    with Checked(io=3) as fs:
        fs.up()
        tree = fs.root + "/tree"
        make_tree(tree, 150, large=2)
        failures, runs, copies = [], 0, 0
        end = time.monotonic() + SECONDS

        def client(number):
            """Copies the tree in, moves it, and removes the previous copy, again and again."""
            nonlocal copies
            i = 0
            while time.monotonic() < end and not failures:
                name = "spate:/copy-%d-%d" % (number, i)
                for args in [("cp", "-q", "-r", tree, name), ("mv", name, name + "-moved")] + ([("rm", "-r", last)] if i else []):
                    done = fs.run(*args)
                    if done.returncode != 0:
                        failures.append("%s: %s" % (args, done.stderr))
                last = name + "-moved"
                i += 1
                copies += 1

        clients = [threading.Thread(target=client, args=(n,)) for n in range(2)]
        for c in clients:
            c.start()
        try:
            while time.monotonic() < end and not failures:
                for args in [(), ("--repair",)]:
                    findings, _ = fs.fsck_says(CLEAN, *args)
                    check(findings == [], findings)
                    runs += 1
        finally:
            end = 0
            for c in clients:
                c.join()
        check(not failures, failures)
        check(runs >= 2 and copies >= 2, "%d runs, %d copies" % (runs, copies))
        fs.fsck_says(CLEAN)
        for name in fs.spate("ls", "spate:/").decode().split():
            fs.spate("cp", "-q", "-r", "spate:/" + name, fs.root + "/back-" + name)
            same_tree(tree, fs.root + "/back-" + name)


main()
