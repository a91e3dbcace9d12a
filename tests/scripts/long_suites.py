#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test-long names its suites, and refuses a name that is none, without building anything.

  long_suites.py ROOT BUILD     BUILD: a folder that CMake has configured
"""
import os
import re
import subprocess
import sys
import tempfile

root, build = sys.argv[1:]
wrong = []


def test_long(argument):
    """Runs scripts/test-long with stand-ins for the commands that install and build, which only leave a note."""
    with tempfile.TemporaryDirectory() as folder:
        for command in ("ninja", "cmake", "ctest", "apt-get"):
            path = os.path.join(folder, command)
            with open(path, "w", encoding="utf-8") as out:
                out.write("#!/bin/sh\necho %s >> %s/ran\n" % (command, folder))
            os.chmod(path, 0o755)
        ended = subprocess.run([os.path.join(root, "scripts/test-long"), argument], capture_output=True, text=True, timeout=60,
                               env={**os.environ, "PATH": folder + ":" + os.environ["PATH"]}, check=False)
        if os.path.exists(os.path.join(folder, "ran")):
            wrong.append("%s runs %s" % (argument, open(os.path.join(folder, "ran"), encoding="utf-8").read().split()))
        return ended


listed = test_long("--list")
names = {line.split(":")[0] for line in listed.stdout.splitlines()}
labels = subprocess.run(["ctest", "--test-dir", build, "-C", "long", "--print-labels"], capture_output=True, text=True, check=True).stdout
declared = set(re.findall(r"^ *long_(\w+)$", labels, re.MULTILINE))
if not declared:
    wrong.append("ctest names no suite")
if declared - names:
    wrong.append("--list does not name %s" % sorted(declared - names))
refused = test_long("no_such_suite")
if refused.returncode != 2 or 'no suite "no_such_suite"' not in refused.stderr:
    wrong.append("no_such_suite: exit code %d, %r" % (refused.returncode, refused.stderr))
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
