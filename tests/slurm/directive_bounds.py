#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging/slurm/burst_buffer.lua reads users' job scripts in Slurm's controller. It reads and keeps a bounded part of
a script, and the time for a line is proportional to its length. Runs without Slurm: Lua calls the functions."""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.environ["SPATE_SOURCE"] + "/tests/integration")
from cluster import check, skip  # noqa: E402

CALL = """
slurm = {SUCCESS = 0, ERROR = -1}
dofile(arg[1])
local code, wrong = slurm_bb_job_process(arg[2], 1000, 1000, {})
io.write(code, " ", wrong or "")
"""
GOOD = b"#SPATE stage_in source=/a destination=spate:/a\n"
MIB = 1 << 20
MEMORY = 256 * MIB  # reading the whole of an endless script would exceed it


def lua():
    for name in ("lua5.3", "lua5.4", "lua5.1", "lua"):
        if shutil.which(name):
            return name
    return skip("needs lua5.3")


def asked(folder, script):
    """Returns the reply to a script. A process with little memory and little time computes it."""
    path = folder + "/job.sh"
    if script is not None:
        with open(path, "wb") as file:
            file.write(script)
    else:  # a sparse file: a line with almost no end
        with open(path, "wb") as file:
            file.truncate(MEMORY * 4)
    with open(folder + "/call.lua", "w", encoding="utf-8") as file:
        file.write(CALL)
    words = ["prlimit", "--as=%d" % MEMORY, "--cpu=20", lua(), folder + "/call.lua", os.environ["SPATE_SOURCE"] + "/packaging/slurm/burst_buffer.lua", path]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=100, check=False)
    check(done.returncode == 0, "exit %d: %s" % (done.returncode, done.stdout[-500:]))
    code, _, text = done.stdout.partition(" ")
    check(len(text) < 1000, "a message of %d bytes" % len(text))
    return int(code), text


def main():
    with tempfile.TemporaryDirectory(prefix="spate-test-") as folder:
        check(asked(folder, b"#!/bin/bash\n" + GOOD * 3 + b"echo\n") == (0, ""), "a usual script is refused")
        check(asked(folder, GOOD * 1000)[0] == 0, "1000 lines are refused")
        # Each script is refused at once, with the reason.
        for name, script, word in (
                ("endless", None, "16 MiB"),
                ("long", b"#!/bin/bash\n" + b"x" * 17 * MIB, "16 MiB"),
                ("many lines", GOOD * 1001, "1000"),
                ("a long name", b"#SPATE " + b"y" * MIB + b"\n", "begins with"),
                ("a long word", b"#SPATE mount " + b"y" * MIB + b"\n", "KEY=VALUE"),
                ("a long path", b"#SPATE stage_in destination=spate:/x source=" + b"y" * MIB + b"\n", "absolute"),
                ("another long path", b"#SPATE stage_in source=/x destination=" + b"y" * MIB + b"\n", "spate:/"),
                ("blanks", b"#SPATE mount at=/x" + b" " * 4 * MIB + b"y\n", "KEY=VALUE"),
                ("nothing but blanks", b"#SPATE mount" + b" \t" * 2 * MIB + b"\n", "needs at=")):
            code, text = asked(folder, script)
            check(code == -1 and word in text, "%s: %d %s" % (name, code, text))
        blanks = GOOD.replace(b" destination", b" " * 4 * MIB + b"destination")
        check(asked(folder, blanks) == (0, ""), "blanks between words")


main()
