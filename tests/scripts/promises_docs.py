#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every promise in docs/consistency.md names the test that shows it, and so do other pages: each name must be that of a test
there is.

  promises_docs.py ROOT   0 when each Suite.Name (or Suite.*) and each file of tests/ that docs/ names exists; else a line for
                          each that does not
"""
import pathlib
import re
import sys

NAMED = re.compile(r"`([A-Z]\w+)\.(\w+|\*)`")
FILE = re.compile(r"`(tests/[\w/.-]+)`")
TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
FEWEST = 50  # fewer would mean that the page, or this pattern, has changed its form


def main():
    root = pathlib.Path(sys.argv[1])
    tests = set()
    for folder in ("src", "tests"):
        for path in (root / folder).rglob("*.cc"):
            tests.update(TEST.findall(path.read_text(encoding="utf-8")))
    suites = {suite for suite, _ in tests}
    wrong = []
    for page in sorted((root / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        named = NAMED.findall(text)
        missing = [f"{s}.{n}, which is no test" for s, n in named if (s not in suites if n == "*" else (s, n) not in tests)]
        missing += [f"{file}, which does not exist" for file in FILE.findall(text) if not (root / file).exists()]
        wrong += [f"docs/{page.name} names {what}" for what in missing]
        if page.name == "consistency.md" and len(named) < FEWEST:
            wrong.append(f"docs/{page.name} names only {len(named)} tests")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
