#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/site makes a site in which a reader finds every page and a search finds words; it refuses what is broken."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["SPATE_SOURCE"])


def site(tree, target):
    done = subprocess.run([tree / "scripts/site", target], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def expect(good, what):
    if not good:
        sys.exit("FAILED: %s" % what)


def copy_of_tree(target):
    subprocess.run(["git", "clone", "-q", "--depth", "1", "file://%s" % SOURCE, target], check=True)
    return target


def refused(tree, place, page, line, words):
    """With this line at the end of that page, scripts/site must make no site and must print the cause."""
    before = (tree / page).read_text()
    (tree / page).write_text(before + "\n" + line + "\n")
    code, said = site(tree, place / "broken")
    (tree / page).write_text(before)
    expect(code != 0, "a site was made with %r in %s" % (line, page))
    expect(words in said, "%r is not in what was printed about %r:\n%s" % (words, line, said))
    expect(not (place / "broken").exists(), "a broken site was left behind")


def main():
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        tree = copy_of_tree(place / "tree")
        code, said = site(tree, place / "site")
        expect(code == 0, "no site was made:\n%s" % said)

        front = (place / "site/index.html").read_text()
        for page in (tree / "docs").glob("*.md"):
            name = "docs/index.html" if page.stem == "README" else "docs/%s.html" % page.stem
            expect((place / "site" / name).is_file(), "%s is not on the site" % page.name)
            expect('href="%s"' % name in front, "the menu of the first page has no link to %s" % name)
        found = json.loads((place / "site/search/search_index.json").read_text())["docs"]
        expect(any("fsync" in entry["text"] and entry["location"].startswith("docs/consistency") for entry in found),
               "a search for fsync does not find docs/consistency.md")

        code, said = site(tree, place / "site")
        expect(code == 0, "the site was not made anew in its own folder:\n%s" % said)
        (place / "own").mkdir()
        (place / "own/letter").write_text("mine")
        code, said = site(tree, place / "own")
        expect(code != 0 and "something else" in said, "a folder with other files was taken:\n%s" % said)
        expect((place / "own/letter").read_text() == "mine", "another's file is gone")

        refused(tree, place, "docs/mount.md", "[nowhere](not-there.md)", "not-there.md")
        refused(tree, place, "docs/mount.md", "[nowhere](../src/no-such-file.cc)", "no-such-file.cc")
        refused(tree, place, "docs/mount.md", '<img src="https://example.org/x.png">', "https://example.org/x.png")
        (tree / "docs/mount.md").unlink()
        code, said = site(tree, place / "broken")
        expect(code != 0 and "mount.md" in said, "a page that is in the menu is missing, and nothing was said:\n%s" % said)

        for drawing in (tree / "docs/pictures").glob("*.dot"):
            drawn = subprocess.run(["dot", "-Tsvg", drawing], check=True, capture_output=True, text=True).stdout
            expect(drawing.with_suffix(".svg").read_text() == drawn, "%s is not what its .svg shows: draw it anew" % drawing.name)
    print("PASSED")


main()
