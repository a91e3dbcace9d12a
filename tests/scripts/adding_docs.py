#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages that say how to add something name files, classes and functions. Each of them must exist.

  adding_docs.py ROOT   0 when all exist; else a line for each that does not

A name in backticks is checked in one of these forms:
  a file or folder      `src/bmi/CMakeLists.txt`, `shm/peer.cc`, `peer.h`: below the root, src/ or src/*/, or anywhere by its last part
  a member              `Sink::completed`: one file that declares Sink has the word `completed`
  a function or class   `admitted()`, `ModuleBase`: a word of the sources
A name in capitals within it (NAME) stands for the module that a page follows; see FOLLOWED. Text in other forms is not checked.
"""
import pathlib
import re
import sys

FOLLOWED = {"adding-a-bmi-module.md": "shm"}
FEWEST = {"adding-a-bmi-module.md": 80, "adding-a-distribution.md": 10, "adding-a-request.md": 30,
          "adding-a-data-path.md": 15, "adding-a-mount-option.md": 12, "adding-a-storage-module.md": 15}  # fewer: the form of the page has changed
TEXT = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"^[\w./-]*(?:\w/|\.(?:h|cc|py|md|txt|toml))$|^[a-z][\w-]*(?:/[\w.-]+)+$")
MEMBER = re.compile(r"^(?:\w+::)*([A-Z]\w+)::(\w+)(?:\(.*\))?$")
WORD = re.compile(r"^([A-Za-z_]\w{2,})(?:\(\))?$")
SOURCES = (".h", ".cc", ".py", ".txt")
WRITTEN_BY_READER = {"reverse_stripe", "count_names", "CountNames", "late", "plain", "label"}  # files that the pages add


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = []
        self.text = {}
        for folder in ("src", "tests", "bench", "scripts", "docs", "cmake"):
            for path in (root / folder).rglob("*"):
                if path.is_file():
                    self.files.append(path)
                    if path.suffix in SOURCES and path.name != "adding_docs.py":
                        self.text[path] = path.read_text(encoding="utf-8")
        self.words = set()
        for text in self.text.values():
            self.words.update(re.findall(r"\w+", text))

    def has_file(self, name):
        name = name.rstrip("/")
        if any((base / name).exists() for base in (self.root, self.root / "src", self.root / "src/bmi", self.root / "tests/bmi")):
            return True
        return any(path.as_posix().endswith("/" + name) for path in self.files)

    def has_member(self, owner, member):
        declared = re.compile(r"\b(?:class|struct)\s+%s\b[^;]*\{" % owner)
        return any(re.search(r"\b%s\b" % member, text) for text in self.text.values() if declared.search(text))


def alternatives(name):
    """Expands `a.{h,cc}` to two names."""
    braces = re.search(r"\{([\w,]+)\}", name)
    return [name] if braces is None else [name.replace(braces[0], one) for one in braces[1].split(",")]


def problem(tree, name):
    """Returns (whether the name has a form that is checked, the error or None)."""
    if FILE.match(name):
        return True, None if tree.has_file(name) else "which does not exist"
    member = MEMBER.match(name)
    if member is not None:
        return True, None if tree.has_member(member[1], member[2]) else "but no class of that name has such a member"
    word = WORD.match(name.removeprefix("class ").split("::")[-1])
    if word is not None:
        return True, None if word[1] in tree.words else "which no source has"
    return False, None


def main():
    root = pathlib.Path(sys.argv[1])
    tree = Tree(root)
    wrong = []
    for page in sorted((root / "docs").glob("adding-*.md")):
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        checked = 0
        for name in sorted(set(TEXT.findall(prose))):
            if any(word in name for word in WRITTEN_BY_READER):
                continue
            for one in alternatives(name.replace("NAME", FOLLOWED.get(page.name, "NAME"))):
                known_form, what = problem(tree, one)
                checked += known_form
                if what is not None:
                    wrong.append("docs/%s names %s, %s" % (page.name, one, what))
        if checked < FEWEST.get(page.name, 1):
            wrong.append("docs/%s names only %d files, classes and functions" % (page.name, checked))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
