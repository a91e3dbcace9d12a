#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every promise in docs/consistency.md names the test that shows it: each name must be that of a test there is.

  promises_docs.py ROOT   0 when each Suite.Name (or Suite.*) exists; else a line for each that does not
"""
import pathlib
import re
import sys

NAMED = re.compile(r"`([A-Z]\w+)\.(\w+|\*)`")
TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
FEWEST = 50  # fewer would mean that the page, or this pattern, has changed its form


def main():
    root = pathlib.Path(sys.argv[1])
    tests = set()
    for folder in ("src", "tests"):
        for path in (root / folder).rglob("*.cc"):
            tests.update(TEST.findall(path.read_text(encoding="utf-8")))
    suites = {suite for suite, _ in tests}
    named = NAMED.findall((root / "docs/consistency.md").read_text(encoding="utf-8"))
    missing = [(s, n) for s, n in named if (s not in suites if n == "*" else (s, n) not in tests)]
    for suite, name in missing:
        print(f"docs/consistency.md names {suite}.{name}, which is no test")
    if len(named) < FEWEST:
        print(f"docs/consistency.md names only {len(named)} tests")
    return 1 if missing or len(named) < FEWEST else 0


if __name__ == "__main__":
    sys.exit(main())
