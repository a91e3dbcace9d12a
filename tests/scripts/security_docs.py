#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/security.md lists each way in with the check that stands there and the test that shows it. Each row names a test, and each test
that it names exists.

  security_docs.py ROOT   0 when that holds; else a line for each row or name for which it does not

A test is named in one of these forms: `program_test` (then the suites follow in plain words), `Suite.Name` or `Suite`, `name_fuzz`, a file
of tests/, or a registered test such as `attack_broker`. What follows a registered test in plain words or in parentheses are
words of its script.
"""
import pathlib
import re
import sys

TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
REGISTERED = re.compile(r"\bspate_(?:script|long)_test\(\s*([\w${}]+)\s+([\w./${}]*)")
NOBODY = re.compile(r"\bnobody: |\bnames it \|")  # rows about files that nobody else can write need no test
FEWEST = 45  # rows with a test; fewer: the form of the page has changed


class Tests:
    def __init__(self, root):
        self.root = root
        files = [path for folder in ("src", "tests") for path in (root / folder).rglob("*") if path.is_file()]
        self.cases, self.programs = set(), set()
        self.scripts = []  # (pattern of the names, pattern of the script, CMakeLists.txt, its text)
        for path in files:
            if path.suffix == ".cc":
                self.cases.update(TEST.findall(path.read_text(encoding="utf-8")))
            if path.name == "CMakeLists.txt":
                text = path.read_text(encoding="utf-8")
                self.scripts += [(*found, path, text) for found in REGISTERED.findall(text)]
                self.programs.update(re.findall(r"\bspate_test\(\s*(\w+)", text))
        self.fuzzers = {path.stem for path in files if path.name.endswith("_fuzz.cc")}
        self.suites = {suite for suite, _ in self.cases}

    def script_of(self, name):
        """Returns the script of a registered test, or None if there is no such test."""
        for pattern, script, path, text in self.scripts:
            fits = re.fullmatch(re.sub(r"\$\{\w+\}", r"(\\w+)", pattern), name)
            if fits is None or any(not re.search(r"\b%s\b" % word, text) for word in fits.groups()):
                continue
            file = path.parent / re.sub(r"\$\{\w+\}", lambda _: fits[1], script)
            if file.is_file():
                return file
        return None

    def problem(self, name, after):
        """Returns the error about the named test, which these words follow, or None."""
        if "." in name and "/" not in name:
            suite, case = name.split(".", 1)
            return None if (suite, case) in self.cases or (case == "*" and suite in self.suites) else "is no test"
        if "/" in name:
            return None if (self.root / name).exists() else "does not exist"
        if name in self.fuzzers or name in self.suites:
            return None
        words = re.findall(r"\b\w+\b", after)
        if name in self.programs:
            missing = [word for word in words if word[0].isupper() and word not in self.suites]
            return f"has no suite {missing[0]}" if missing else None
        script = self.script_of(name)
        if script is None:
            return "is no test"
        text = script.read_text(encoding="utf-8")
        missing = [word for word in words if word not in ("a", "the", "and") and word not in text]
        return f"has nothing that is called {missing[0]}" if missing else None


def rows(text):
    """Returns the rows of each table whose last column is the test."""
    table = None
    for line in text.splitlines():
        if not line.startswith("|"):
            table = None
        elif table is None:
            table = line.rstrip(" |").split("|")[-1].strip()
        elif table == "test" and not line.startswith("|---"):
            yield line


def main():
    root = pathlib.Path(sys.argv[1])
    tests = Tests(root)
    wrong, checked = [], 0
    for row in rows((root / "docs/security.md").read_text(encoding="utf-8")):
        what, last = row.split("|")[1].strip(), row.rstrip().rstrip("|").split("|")[-1]
        named = re.findall(r"`([\w./*]+)`([^`]*)", re.sub(r"\(`(\w+)`\)", r"(\1)", last))
        checked += bool(named)
        if not named and not NOBODY.search(row):
            wrong.append(f"no test is named for: {what}")
        for name, after in named:
            problem = tests.problem(name, re.sub(r"\(src/[^)]*\)|\(tests/[^)]*\)|\(every module\)|\(shm\)", "", after))
            wrong += [f"the row \"{what}\": {name} {problem}"] if problem else []
    if checked < FEWEST:
        wrong.append(f"only {checked} rows name a test")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
