#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python code of docs/python.md as it stands there, block after block in one program. Blocks of a package that is
not installed are left out and named. Without numpy, which most of them use, the test is skipped."""
import importlib.util
import os
import re
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
IMPORT = re.compile(r"^ *(?:import|from) (\w+)", re.MULTILINE)


def main():
    if importlib.util.find_spec("numpy") is None:
        print("needs python3-numpy")
        sys.exit(77)
    with open(HERE + "/../../docs/python.md", encoding="utf-8") as page:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read(), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5, "the page has no Python any more"
    names = {"__name__": "__main__"}
    for number, block in enumerate(blocks, 1):
        missing = [name for name in IMPORT.findall(block) if importlib.util.find_spec(name) is None]
        if missing:
            print("block %d is left out: %s" % (number, missing))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if "fsspec" in block or "pandas" in block else "error")  # their own warnings
            exec(compile(block, "docs/python.md, block %d" % number, "exec"), names)


main()
