#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/break-checks finds rows of tests/breaks/*.toml that do not agree with the code, and this tree has none.

  breaks.py ROOT
"""
import importlib.machinery
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(sys.argv[1])
wrong = []

GOOD = {"name": "n", "row": "keeps them out", "file": "src/a.cc", "check": "x == 1", "without": "true", "test": "a_test", "filter": "A.Fails"}
# Changes of the good row, and words of the complaint about each.
BAD = [
    ({"check": "x == 2"}, "has its check 0 times"),
    ({"check": "x"}, "has its check 2 times"),
    ({"file": "src/gone.cc"}, "has its check 0 times"),
    ({"row": "lets them in"}, "no page in docs/ says"),
    ({"filter": "A.Gone"}, "no test A.Gone"),
    ({"test": "gone_test"}, "no test gone_test"),
    ({"kind": "1"}, "unknown ['kind']"),
    ({"script": "tests/a.py"}, "unknown ['filter', 'test']"),
]


def complaint(change):
    """What --table says of a tree with one row, which is the good one with these changes."""
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for path, text in {"src/a.cc": "bool f(int x) { return x == 1; }\n", "src/a_test.cc": "TEST(A, Fails) {}\n",
                           "src/CMakeLists.txt": "spate_test(a_test)\n", "docs/a.md": "A check keeps them out.\n",
                           "tests/breaks/a.toml": "[[break]]\n" + "".join(f'{k} = "{v}"\n' for k, v in {**GOOD, **change}.items())}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
        (tree / "scripts").mkdir()
        shutil.copy(ROOT / "scripts/break-checks", tree / "scripts")
        subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
        done = subprocess.run([tree / "scripts/break-checks", "--table"], capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr


def expect_applied(check, without, expected):
    loader = importlib.machinery.SourceFileLoader("break_checks", str(ROOT / "scripts/break-checks"))
    one = loader.load_module().Break({**GOOD, "check": check, "without": without}, "a.toml")
    applied = one.apply(f"before {check} after")
    if applied != f"before {expected} after":
        wrong.append(f"{check} becomes {applied}")


if said := complaint({}):
    wrong.append(f"the good row: {said}")
for change, words in BAD:
    if words not in (said := complaint(change)):
        wrong.append(f"{change}: {said!r} does not say {words!r}")
expect_applied("x == 1", "true", '(::spate_broken("n") ? (true) : (x == 1))')
expect_applied("f(x);", "", 'if (::spate_broken("n")) {  } else { f(x); }')
done = subprocess.run([ROOT / "scripts/break-checks", "--table"], capture_output=True, text=True, check=False)
if done.returncode != 0:
    wrong.append(done.stdout + done.stderr)
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
