#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a build folder and counts them: GoogleTest binaries by case, everything else as one.

  run_tests.py run --build build [--label unit ...] [--config long] [--programs FOLDER] [--tally FILE]
  run_tests.py targets --build build --label tsan    ninja's targets for the tests that carry a label
  run_tests.py command --tally FILE NAME -- CMD ...  one command as one test
  run_tests.py summary --tally FILE                  "N passed, N failed"; exit code 1 on failure

Without --tally, run prints the summary itself. Exit code 77 of a test means skipped; its last line is the reason.

A test runs with an empty home folder of its own, which it must leave empty, and while no default port can be had: so it passes
beside a running file system and beside another run.
"""
import argparse
import concurrent.futures
import copy
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MARK = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([^\s,]+\.[^\s,]+)")
TOTAL = re.compile(r"\[=+\] Running (\d+) tests? from")
SHOWN_BYTES = 60_000  # of a failing test's output
print_lock = threading.Lock()


class Outcome:
    def __init__(self, passed=0, failed=0, skipped=0, notes=()):
        self.passed, self.failed, self.skipped = passed, failed, skipped
        self.notes = list(notes)  # lines for people: failures, and reasons of skipped tests

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.notes += other.notes

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")

    def failures(self):
        return [note for note in self.notes if note.startswith("FAILED ")]


class Test:
    """One entry of ctest."""

    def __init__(self, entry, default_timeout):
        properties = {p["name"]: p["value"] for p in entry.get("properties", [])}
        self.name = entry["name"]
        self.command = entry.get("command", [])
        self.labels = properties.get("LABELS", [])
        self.serial = properties.get("RUN_SERIAL", False)
        self.timeout = float(properties.get("TIMEOUT", default_timeout))
        self.cost = float(properties.get("COST", 0))  # seconds; set for tests that take much longer than others
        self.folder = properties.get("WORKING_DIRECTORY")
        self.environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
        self.cases = None  # set for a GoogleTest binary: run only these cases

    def use_programs(self, build, programs):
        """Replaces the build folder by `programs`, a folder of the same layout, in the command and in the environment."""
        self.command = [word.replace(build + "/", programs + "/") for word in self.command]
        self.environment = {name: value.replace(build + "/", programs + "/") for name, value in self.environment.items()}

    def part(self, index, parts, cases):
        one = copy.copy(self)
        one.name = f"{self.name} {index + 1}/{parts}"
        one.cases = cases[index::parts]
        return one

    def in_parts(self):
        """Splits tests with the label parts_N, whose binary waits more than it computes: N processes run it, each with
        a share of the cases."""
        parts = next((int(label[6:]) for label in self.labels if re.fullmatch(r"parts_\d+", label)), 1)
        cases = names_of_cases(self) if parts > 1 else []
        return [self.part(i, parts, cases) for i in range(parts)] if len(cases) >= parts else [self]

    def is_gtest(self):
        return "gtest" in self.labels or pathlib.Path(self.command[0]).name.endswith("_test")

    def order(self):
        """Sorts the longest tests first, so that none of them is left over at the end; then fast unit tests; tests with
        real processes last."""
        ranks = {"unit": 0, "fuzz": 1, "integration": 3, "long": 4}
        return -self.cost, min((ranks[label] for label in self.labels if label in ranks), default=2)


def execute(command, timeout, folder=None, environment=None):
    """Runs a command and its children as one process group. Returns (exit code, or None at the time limit; output)."""
    environment = {**os.environ, **(environment or {})}
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=folder,
            env={name: value for name, value in environment.items() if value is not None}, start_new_session=True)
        code = None
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        finally:
            # A process that the test left behind would disturb the next test.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        out.seek(0)
        return code, out.read().decode(errors="replace")


def shown(output):
    return output if len(output) <= SHOWN_BYTES else "[...]\n" + output[-SHOWN_BYTES:]


def end_text(code):
    if code is None:
        return "ended by its time limit"
    return f"killed by signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def run_script(test):
    code, output = execute(test.command, test.timeout, test.folder, test.environment)
    if code == 0:
        return Outcome(passed=1)
    if code == 77:
        return Outcome(skipped=1, notes=[f"skipped {test.name}: {last_line(output)}"])
    return Outcome(failed=1, notes=[f"FAILED {test.name} ({end_text(code)})", shown(output)])


def parse_gtest(output):
    """Returns {case: RUN, OK, FAILED or SKIPPED} and the reasons of the skipped cases."""
    cases, reasons, begin = {}, {}, 0
    for mark in MARK.finditer(output):
        state, name = mark.groups()
        if state == "RUN":
            begin = mark.end()
        elif state == "SKIPPED" and cases.get(name) == "RUN":
            reasons[name] = last_line(output[begin:mark.start()])
        if state == "RUN" or cases.get(name) in (None, "RUN"):
            cases[name] = state
    return cases, reasons


def names_of_cases(test):
    """Returns the cases that --gtest_list_tests prints, or nothing if the binary cannot run."""
    try:
        code, output = execute(test.command + ["--gtest_list_tests"], 60, test.folder, test.environment)
    except (OSError, IndexError):
        return []
    names, suite = [], ""
    for line in output.splitlines() if code == 0 else []:
        word = line.split("#")[0].strip()
        if line.startswith("  "):
            names.append(suite + word)
        elif word.endswith("."):
            suite = word
    return names


def case_filter(test, seen):
    """Returns the option that selects the cases of this part that have not run yet."""
    if test.cases is not None:
        return ["--gtest_filter=" + ":".join(case for case in test.cases if case not in seen)]
    return ["--gtest_filter=-" + ":".join(seen)] if seen else []


def run_gtest(test):
    """Runs a GoogleTest binary. A crash fails the current case; the binary is then started again for the remaining
    cases, so that all are counted."""
    outcome, seen, crashes = Outcome(), [], 0
    while True:
        command = test.command + ["--gtest_color=no"] + case_filter(test, seen)
        code, output = execute(command, test.timeout, test.folder, test.environment)
        cases, reasons = parse_gtest(output)
        bad = [name for name, state in cases.items() if state in ("RUN", "FAILED")]
        if code == 77 and not cases:
            return Outcome(skipped=max(1, len(test.cases or names_of_cases(test))), notes=[f"skipped {test.name}: {last_line(output)}"])
        outcome.passed += sum(state == "OK" for state in cases.values())
        outcome.skipped += len(reasons)
        outcome.failed += len(bad)
        outcome.notes += [f"skipped {name}: {reason}" for name, reason in reasons.items()]
        total = TOTAL.search(output)
        missing = int(total.group(1)) - len(cases) if total else 0
        crashed = any(state == "RUN" for state in cases.values())
        if bad or code != 0:
            names = ", ".join(bad) or "no case of its own"
            outcome.notes += [f"FAILED {test.name}: {names} ({end_text(code)})", shown(output)]
        if crashed and missing > 0 and code is not None and crashes < 20:
            crashes += 1
            seen += cases
            continue
        outcome.failed += max(0, missing)  # these cases never ran
        if missing > 0:
            outcome.notes.append(f"FAILED {test.name}: {missing} cases were not reached")
        if (code != 0 and not bad and missing <= 0) or (not cases and not seen and missing <= 0 and code == 0):
            outcome.failed += 1  # it failed outside of its cases (a leak, a crash at exit), or it has no cases
            if code == 0:
                outcome.notes.append(f"FAILED {test.name}: it holds no case")
        return outcome


def run_at_home(test):
    """Runs the test with its own home folder, where it must leave nothing. Caches stay those of the user."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    with tempfile.TemporaryDirectory(prefix="spate-home-") as home, tempfile.TemporaryDirectory(prefix="spate-run-") as runtime:
        test = copy.copy(test)
        # None: the variable is unset.
        test.environment = {"HOME": home, "XDG_RUNTIME_DIR": runtime, "XDG_CACHE_HOME": cache, "XDG_STATE_HOME": None,
                            "XDG_DATA_HOME": None, "XDG_CONFIG_HOME": None, "SPATE_FS": None, **test.environment}
        outcome = run_gtest(test) if test.is_gtest() else run_script(test)
        left = sorted(os.listdir(home))
        if left:
            outcome.failed += 1
            outcome.notes.append(f"FAILED {test.name}: it left {', '.join(left)} in the user's home folder")
        return outcome


def run_test(test):
    start = time.monotonic()
    if not test.command or not os.access(test.command[0], os.X_OK):
        outcome = Outcome(failed=1, notes=[f"FAILED {test.name}: it was not built"])
    else:
        outcome = run_at_home(test)
    with print_lock:
        state = "FAIL" if outcome.failed else "ok"
        print(f"{state:4} {test.name:32} {outcome.line():32} {time.monotonic() - start:6.1f} s", flush=True)
        for note in outcome.notes:
            print(note, flush=True)
    return outcome


def load_tests(args):
    command = ["ctest", "--test-dir", args.build, "--show-only=json-v1"]
    if args.config:
        command += ["-C", args.config]
    listing = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    tests = [Test(entry, args.timeout) for entry in listing["tests"]]
    if args.programs:
        for test in tests:
            test.use_programs(os.path.abspath(args.build), os.path.abspath(args.programs))
    if args.label:
        tests = [t for t in tests if set(args.label) & set(t.labels)]
    if args.exclude_label:
        tests = [t for t in tests if not set(args.exclude_label) & set(t.labels)]
    return sorted(tests, key=Test.order)


def verdict(outcome):
    """Repeats which tests failed. The last line has only the numbers of passed and failed tests, since programs read it."""
    print("".join(f"{failure}\n" for failure in outcome.failures()), end="")
    if outcome.skipped:
        print(f"{outcome.skipped} skipped, as said above")
    print(f"{outcome.passed} passed, {outcome.failed} failed")


def tally(args, outcome):
    if not args.tally:
        verdict(outcome)
        return 1 if outcome.failed else 0
    with open(args.tally, "a", encoding="utf-8") as file:
        file.write(json.dumps([outcome.passed, outcome.failed, outcome.skipped, outcome.failures()]) + "\n")
    return 1 if outcome.failed else 0


def without_default_ports():
    """Holds those default ports of `spate up` that are free, so that a test that uses one fails on every machine."""
    held = []
    for port in range(7400, 7405):
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", port))
            held.append(one)
        except OSError:
            one.close()
    return held


def command_run(args):
    tests = load_tests(args)
    if not tests:
        return tally(args, Outcome(failed=1, notes=["FAILED no test matches"]))
    held = without_default_ports()
    try:
        return tally(args, run_all(args, tests))
    finally:
        for one in held:
            one.close()


def run_all(args, tests):
    total = Outcome()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for outcome in pool.map(run_test, [part for t in tests if not t.serial for part in t.in_parts()]):
            total.add(outcome)
    for test in tests:
        if test.serial:
            total.add(run_test(test))
    return total


def command_targets(args):
    # ctest omits the command of a test that is not built yet. The target of such a test has the test's name
    # (spate_test).
    listing = subprocess.run(["ninja", "-C", args.build, "-t", "targets", "all"], check=True, stdout=subprocess.PIPE)
    known = {line.split(":")[0] for line in listing.stdout.decode().splitlines()}
    for test in load_tests(args):
        if test.name in known:
            print(test.name)
    return 0


def command_command(args):
    test = Test({"name": args.name, "command": args.command}, args.timeout)
    start = time.monotonic()
    outcome = run_script(test)
    print(f"{'FAIL' if outcome.failed else 'ok':4} {args.name:32} {outcome.line():32} {time.monotonic() - start:6.1f} s")
    print("\n".join(outcome.notes), end="\n" if outcome.notes else "", flush=True)
    return tally(args, outcome) if args.tally else (1 if outcome.failed else 0)


def command_summary(args):
    total = Outcome()
    path = pathlib.Path(args.tally)
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        total.add(Outcome(*json.loads(line)))
    verdict(total)
    return 1 if total.failed or not total.passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    for name, function in (("run", command_run), ("targets", command_targets)):
        sub = commands.add_parser(name)
        sub.set_defaults(function=function)
        sub.add_argument("--build", default="build")
        sub.add_argument("--label", action="append")
        sub.add_argument("--exclude-label", action="append")
        sub.add_argument("--config")
        sub.add_argument("--programs", help="take programs and libraries from this folder, laid out like --build")
        sub.add_argument("--jobs", type=int, default=3 * (os.cpu_count() or 1), help="tests at a time; many wait")
    sub = commands.add_parser("command")
    sub.set_defaults(function=command_command)
    sub.add_argument("name")
    sub.add_argument("command", nargs="+")
    commands.add_parser("summary").set_defaults(function=command_summary)
    for sub in commands.choices.values():
        sub.add_argument("--tally")
        sub.add_argument("--timeout", type=float, default=300, help="seconds, where a test has none of its own")
    args = parser.parse_args()
    return args.function(args)


if __name__ == "__main__":
    sys.exit(main())
