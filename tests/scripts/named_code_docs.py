#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/ and the README.md of each folder name files, classes and functions. Each of them must exist.

  named_code_docs.py ROOT   0 when all exist; else a line for each that does not

A name in backticks is checked in one of these forms:
  a file or folder      `src/bmi/CMakeLists.txt`, `shm/peer.cc`, `peer.h`: below the root, src/ or src/*/, or anywhere by its last part
  a member              `Sink::completed`: one file that declares Sink has the word `completed`
  a function or class   `admitted()`, `ModuleBase`, `kMaxSlots`, `SPATE_TRY`: a word of the sources

The pages that say how to add something are for authors of code: in them every other word in backticks is one of the sources, too, and a
name in capitals (NAME) stands for the module that the page follows; see FOLLOWED. The other pages also name what is not code of Spate,
so there a file counts only if it lies in a folder of the tree.
"""
import collections
import pathlib
import re
import sys

FOLLOWED = {"adding-a-bmi-module.md": "shm"}
FEWEST = {"adding-a-bmi-module.md": 80, "adding-a-distribution.md": 10, "adding-a-request.md": 30,
          "adding-a-data-path.md": 15, "architecture.md": 40, "code-map.md": 100, "adding-a-mount-option.md": 12, "adding-a-storage-module.md": 15}  # fewer: the form of the page has changed
TEXT = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"^[\w./-]*(?:\w/|\.(?:h|cc|py|md|txt|toml))$|^[a-z][\w-]*(?:/[\w.-]+)+$")
MEMBER = re.compile(r"^(?:\w+::)*([A-Z]\w+)::(\w+)(?:\(.*\))?$")
WORD = re.compile(r"^([A-Za-z_]\w{2,})(?:\(\))?$")
CODE_WORD = re.compile(r"^\w+\(\)$|^k[A-Z]\w*$|^SPATE_\w+$|^[A-Z][a-z0-9]+[A-Z]\w*$")  # forms that only code has
FOLDERS = ("src", "tests", "bench", "scripts", "docs", "cmake", "packaging")
SOURCES = (".h", ".cc", ".py", ".txt")
DECLARED = re.compile(r"\b(?:class|struct)\s+(\w+)\b(?=[^;{]*\{)")
OF_OTHERS = {"mpif.h", "H5Pset_alignment", "H5Pset_coll_metadata_write"}  # MPI and HDF5
WRITTEN_BY_TESTS = {"src/bmi/pipe"}  # in a copy of the tree
WRITTEN_BY_READER = {"reverse_stripe", "count_names", "CountNames", "late", "plain", "label"}  # files that the pages add


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = set()  # every end of a path: peer.h, shm/peer.h, bmi/shm/peer.h, ...
        self.words = set()
        self.declaring = collections.defaultdict(list)  # the texts that declare a class
        for folder in FOLDERS:
            for path in (root / folder).rglob("*"):
                if path.is_file():
                    parts = path.relative_to(root).parts
                    self.files.update("/".join(parts[i:]) for i in range(len(parts)))
                    if path.suffix in SOURCES and path.name != "named_code_docs.py":
                        self.read(path.read_text(encoding="utf-8"))

    def read(self, text):
        words = set(re.findall(r"\w+", text))
        self.words |= words
        for name in set(DECLARED.findall(text)):
            self.declaring[name].append(words)

    def has_file(self, name):
        """Whether there is such a file or folder. Without its end it may be that of a header with its source, or of a program."""
        name = name.rstrip("/")
        if any((base / name).exists() for base in (self.root, self.root / "src", self.root / "src/bmi", self.root / "tests/bmi")):
            return True
        return any(name + end in self.files for end in ("", ".h", ".cc"))

    def is_of_the_tree(self, name):
        """Whether the folder in which the file would lie is one of the tree."""
        folder = name.rstrip("/").rpartition("/")[0]
        return folder.partition("/")[0] in FOLDERS or name.endswith((".h", ".cc")) and (self.root / "src" / folder).is_dir()

    def has_member(self, owner, member):
        return any(member in words for words in self.declaring[owner])


def alternatives(name):
    """Expands `a.{h,cc}` to two names."""
    braces = re.search(r"\{([\w,]+)\}", name)
    return [name] if braces is None else [name.replace(braces[0], one) for one in braces[1].split(",")]


def problem(tree, name, all_words):
    """Returns (whether the name has a form that is checked, the error or None)."""
    if FILE.match(name) and (all_words or tree.is_of_the_tree(name)):
        return True, None if tree.has_file(name) else "which does not exist"
    member = MEMBER.match(name)
    if member is not None:
        return True, None if tree.has_member(member[1], member[2]) else "but no class of that name has such a member"
    word = WORD.match(name.removeprefix("class ").split("::")[-1])
    if word is not None and (all_words or CODE_WORD.match(name)):
        return True, None if word[1] in tree.words else "which no source has"
    return False, None


def main():
    root = pathlib.Path(sys.argv[1])
    tree = Tree(root)
    wrong = []
    pages = sorted((root / "docs").glob("*.md")) + [root / "README.md", root / "CONTRIBUTING.md"]
    for page in pages + [readme for folder in FOLDERS for readme in sorted((root / folder).rglob("README.md")) if folder != "docs"]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        checked = 0
        for name in sorted(set(TEXT.findall(prose))):
            if name in OF_OTHERS | WRITTEN_BY_TESTS or any(word in name for word in WRITTEN_BY_READER):
                continue
            for one in alternatives(name.replace("NAME", FOLLOWED.get(page.name, "NAME"))):
                known_form, what = problem(tree, one, page.name.startswith("adding-"))
                checked += known_form
                if what is not None:
                    wrong.append("%s names %s, %s" % (page.relative_to(root), one, what))
        if checked < FEWEST.get(page.name, 0):
            wrong.append("docs/%s names only %d files, classes and functions" % (page.name, checked))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
