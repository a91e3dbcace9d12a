#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/run_tests.py counts correctly what stand-ins for test binaries print, also if they crash, hang or skip."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["SPATE_SOURCE"]) / "scripts"))
import run_tests  # noqa: E402

# Behaves like a GoogleTest binary with the cases in CASES: each is ok, fail, skip, crash or hang.
STAND_IN = """#!/usr/bin/env python3
import os, sys, time
cases = {cases}
if "--gtest_list_tests" in sys.argv:
    print("S.")
    [print("  " + c) for c in cases]
    sys.exit(0)
whole = {whole}
if whole is not None:
    print("no such device")
    sys.exit(whole)
gone = [a[len("--gtest_filter=-"):].split(":") for a in sys.argv if a.startswith("--gtest_filter=-")]
wanted = [a[len("--gtest_filter="):].split(":") for a in sys.argv if a.startswith("--gtest_filter=S.")]
run = {{c: how for c, how in cases.items() if (not gone or "S." + c not in gone[0]) and (not wanted or "S." + c in wanted[0])}}
print(f"[==========] Running {{len(run)}} tests from 1 test suite.")
for case, how in run.items():
    print(f"[ RUN      ] S.{{case}}", flush=True)
    if how == "ok": print(f"text without line end[       OK ] S.{{case}} (0 ms)")
    if how == "fail": print(f"[  FAILED  ] S.{{case}}, where GetParam() = 3 (0 ms)")
    if how == "skip": print(f"x_test.cc:1: Skipped\\nneeds a moon\\n[  SKIPPED ] S.{{case}} (0 ms)")
    if how == "crash": os.abort()
    if how == "hang": time.sleep(60)  # more than it may take
print("[  PASSED  ] n tests.")
failed = [c for c in run if run[c] == "fail"]
[print(f"[  FAILED  ] S.{{c}}, where GetParam() = 3") for c in failed]
sys.exit(1 if failed else {end})
"""


def outcome(folder, cases, end=0, whole=None, timeout=20):
    binary = folder / "stand_in_test"
    binary.write_text(STAND_IN.format(cases=cases, end=end, whole=whole), encoding="utf-8")
    binary.chmod(0o755)
    result = run_tests.run_gtest(run_tests.Test({"name": "stand_in_test", "command": [str(binary)]}, timeout))
    return (result.passed, result.failed, result.skipped), "\n".join(result.notes)


def outcome_in_parts(folder, cases, parts):
    binary = folder / "stand_in_test"
    binary.write_text(STAND_IN.format(cases=cases, end=0, whole=None), encoding="utf-8")
    binary.chmod(0o755)
    entry = {"name": "stand_in_test", "command": [str(binary)], "properties": [{"name": "LABELS", "value": [f"parts_{parts}"]}]}
    total = run_tests.Outcome()
    split = run_tests.Test(entry, 20).in_parts()
    for part in split:
        total.add(run_tests.run_gtest(part))
    return (total.passed, total.failed, total.skipped), f"{len(split)} parts\n" + "\n".join(total.notes)


def script_outcome(folder, text):
    script = folder / "script"
    script.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    script.chmod(0o755)
    result = run_tests.run_script(run_tests.Test({"name": "script", "command": [str(script)]}, 20))
    return (result.passed, result.failed, result.skipped), "\n".join(result.notes)


def home_outcome(folder, text):
    script = folder / "script"
    script.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    script.chmod(0o755)
    result = run_tests.run_at_home(run_tests.Test({"name": "script", "command": [str(script)]}, 20))
    return (result.passed, result.failed, result.skipped), "\n".join(result.notes)


def can_listen(port):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
            one.listen()
            return True
        except OSError:
            return False


def end_of_summary(folder, tallies):
    """Returns the last two lines of a run, as the summary command prints them, and its exit code."""
    tally = folder / "tally"
    tally.write_text("".join(f"{json.dumps(one)}\n" for one in tallies), encoding="utf-8")
    program = pathlib.Path(os.environ["SPATE_SOURCE"]) / "scripts" / "run_tests.py"
    done = subprocess.run([program, "summary", "--tally", tally], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.splitlines()[-2:], done.returncode


def main():
    wrong = []

    def expect(what, got, counts, note=""):
        if got[0] != counts or note not in got[1]:
            wrong.append(f"{what}: expected {counts} with {note!r}, got {got}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        expect("all pass", outcome(folder, {"a": "ok", "b": "ok"}), (2, 0, 0))
        expect("one fails", outcome(folder, {"a": "ok", "b": "fail", "c": "ok"}), (2, 1, 0), "S.b (exit code 1)")
        expect("one skips", outcome(folder, {"a": "ok", "b": "skip"}), (1, 0, 1), "skipped S.b: needs a moon")
        crash = {"a": "ok", "b": "crash", "c": "ok", "d": "crash", "e": "fail", "f": "ok"}
        expect("crashes", outcome(folder, crash), (3, 3, 0), "S.d (killed by signal SIGABRT)")
        hang = {"a": "ok", "b": "hang", "c": "ok"}
        expect("hangs", outcome(folder, hang, timeout=2), (1, 2, 0), "S.b (ended by its time limit)")
        expect("fails at exit", outcome(folder, {"a": "ok"}, end=23), (1, 1, 0), "exit code 23")
        expect("no case", outcome(folder, {}), (0, 1, 0), "holds no case")
        expect("skipped whole", outcome(folder, {"a": "ok", "b": "ok"}, whole=77), (0, 0, 2), "no such device")
        expect("dies before all", outcome(folder, {"a": "ok"}, whole=3), (0, 1, 0), "exit code 3")
        expect("in parts", outcome_in_parts(folder, crash, 2), (3, 3, 0), "2 parts")
        expect("fewer cases than parts", outcome_in_parts(folder, {"a": "ok"}, 2), (1, 0, 0), "1 parts")
        expect("script passes", script_outcome(folder, "exit 0"), (1, 0, 0))
        expect("script fails", script_outcome(folder, "echo why; exit 3"), (0, 1, 0), "why")
        expect("script skips", script_outcome(folder, "echo no fuse here; exit 77"), (0, 0, 1), "no fuse here")
        os.environ["SPATE_FS"] = "/of/the/user"
        expect("a home of its own", home_outcome(folder, f'test "$HOME" != "{os.environ.get("HOME")}" -a -z "$SPATE_FS"'), (1, 0, 0))
        expect("leaves a file at home", home_outcome(folder, "mkdir $HOME/.spate"), (1, 1, 0), ".spate in the user's home")
        held = run_tests.without_default_ports()
        if can_listen(7400):
            wrong.append("a test can take the default port")
        for one in held:
            one.close()
        passes, fails = [[3, 0, 2, []], [1, 0, 0, []]], [[3, 1, 0, ["FAILED script (exit code 3)"]]]
        for tallies, end in (
            (passes, (["2 skipped, as said above", "4 passed, 0 failed"], 0)),
            (fails, (["FAILED script (exit code 3)", "3 passed, 1 failed"], 1)),
        ):
            if end_of_summary(folder, tallies) != end:
                wrong.append(f"the last lines of {tallies} are not {end}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
