#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows a page of docs/ to the letter, in a copy of the tree that is removed afterwards.

    walk.py PAGE...            paths below SPATE_SOURCE, as docs/adding-a-distribution.md
    walk.py --places PAGE...   runs no commands: shows in a second that each place in a file is there

What a page asks for stands behind the language of its fenced blocks:
    file=PATH                  the block is the whole of a new file
    file=PATH after=TEXT       the block goes behind the only line that contains TEXT
    file=PATH before=TEXT      the block goes before that line
    file=PATH replace=TEXT     the block takes the place of that line
    walk                       commands that must succeed, from the top of the copy
Other blocks are only to be read.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w+) (.+?)\n(.*?)^```$", re.M | re.S)
PLACE = re.compile(r"^file=(\S+)(?: (after|before|replace)=(.+))?$")


class Wrong(Exception):
    pass


def tracked(source):
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z"], check=True, capture_output=True).stdout
    return listed.decode().split("\0")


def copy_of_files(source, target, names):
    for name in names:
        path = os.path.join(source, name)
        if not name or not os.path.lexists(path):
            continue
        os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
        shutil.copy2(path, os.path.join(target, name), follow_symlinks=False)


def the_line(lines, text, path):
    found = [number for number, line in enumerate(lines) if text in line]
    if len(found) != 1:
        raise Wrong("%s: %d lines contain %r" % (path, len(found), text))
    return found[0]


def place(tree, path, how, text, block):
    whole = os.path.join(tree, path)
    if how is None:
        if os.path.exists(whole):
            raise Wrong("%s is there already" % path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w") as out:
            out.write(block)
        return
    with open(whole) as there:
        lines = there.read().splitlines(keepends=True)
    at = the_line(lines, text, path)
    begin, end = {"after": (at + 1, at + 1), "before": (at, at), "replace": (at, at + 1)}[how]
    lines[begin:end] = [block]
    with open(whole, "w") as out:
        out.write("".join(lines))


def run(tree, commands):
    print("".join("  $ %s\n" % line for line in commands.splitlines()), end="", flush=True)
    if subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands], cwd=tree, stdin=subprocess.DEVNULL).returncode != 0:
        raise Wrong("these commands failed")


def walk(source, page, places_only):
    with open(os.path.join(source, page)) as there:
        blocks = FENCE.findall(there.read())
    walks = [block for _, info, block in blocks if info == "walk"]
    if not walks:
        raise Wrong("no block says what to run")
    places = [PLACE.match(info) for _, info, _ in blocks]
    with tempfile.TemporaryDirectory(prefix="spate-page-") as tree:
        copy_of_files(source, tree, {where[1] for where in places if where} if places_only else tracked(source))
        for (_, info, block), where in zip(blocks, places):
            if where:
                place(tree, *where.groups(), block)
            elif info != "walk":
                raise Wrong("not understood: %r" % info)
            elif not places_only:
                run(tree, block)


def main():
    pages = sys.argv[1:]
    places_only = pages[:1] == ["--places"]
    if places_only:
        pages = pages[1:]
    if not pages:
        sys.exit(__doc__)
    source = os.environ.get("SPATE_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for page in pages:
        print("== %s" % page, flush=True)
        try:
            walk(source, page, places_only)
        except Wrong as wrong:
            sys.exit("FAILED: %s: %s" % (page, wrong))
    print("ok")


if __name__ == "__main__":
    main()
