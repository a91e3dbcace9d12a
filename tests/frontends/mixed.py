# SPDX-License-Identifier: Apache-2.0
"""Random calls, each through a front end that is drawn for it, held against a local folder.

    mixed.py ORACLE LIBRARY NATIVE_ROOT OS_ROOT...     with SPATE, the command: an OS_ROOT below /spate is used below `spate run`

FRONTENDS_WALKS walkers (2) go at the same time, each in a folder of its own, with a process for each front end; each of their calls on a name
is made by a process that is drawn, each call on an open file by the one that has it open. What the others have done must be
seen, and everything is as on the local folder. FRONTENDS_STEPS, FRONTENDS_SEED: see cases_random.py.
"""
import errno
import os
import pickle
import random
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import make_frontend, short  # noqa: E402
from cases_random import Walk  # noqa: E402


def send(stream, what):
    data = pickle.dumps(what)
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def receive(stream):
    head = stream.read(4)
    if len(head) < 4:
        raise EOFError
    return pickle.loads(stream.read(struct.unpack("<I", head)[0]))


def try_call(frontend, call, arguments):
    """Returns ("value", the result) or ("error", its name)."""
    try:
        value = getattr(frontend, call)(*arguments)
    except OSError as error:
        return "error", errno.errorcode.get(error.errno, error.errno)
    if call in ("stat", "lstat", "fstat"):
        value = (value.st_mode, value.st_nlink, value.st_size, value.st_uid, value.st_gid)
    return "value", value


class Told:
    """The fields of a stat that Walk uses."""

    def __init__(self, told):
        self.st_mode, self.st_nlink, self.st_size = told[:3]


def worker(kind, root):
    frontend = make_frontend(kind, root)
    frontend.umask(0o022)
    calls, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            call, arguments = receive(calls)
        except EOFError:
            return
        send(answers, try_call(frontend, call, arguments))


class Process:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def do(self, call, arguments):
        send(self.process.stdin, (call, arguments))
        return receive(self.process.stdout)

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


class Differ(Exception):
    pass


class Mixed:
    """Stands in for Walk's Recorder and its front end, and makes each call twice."""

    def __init__(self, oracle, processes, seed):
        self.oracle, self.processes, self.dice = oracle, processes, random.Random(-seed)
        self.frontend, self.opened, self.last, self.count, self.did = self, {}, 0, 0, []

    def both(self, who, call, arguments, oracle_arguments):
        self.count += 1
        got, wanted = who.do(call, arguments), try_call(self.oracle, call, oracle_arguments)
        self.did.append("%s: %s(%s) = %s" % (who.name, call, ", ".join(short(a) for a in arguments), short(got[1])))
        if call == "open" and got[0] == wanted[0] == "value":
            return got, wanted
        if call in ("stat", "lstat", "fstat") and got[0] == wanted[0] == "value" and got[1][0] >> 12 == 4:
            got, wanted = (("value", t[:2]) for t in (got[1], wanted[1]))  # file systems differ in the sizes of directories
        if got != wanted:
            raise Differ("%s\n  ext4: %s" % ("\n  ".join(self.did[-15:]), short(wanted[1])))
        return got, wanted

    def open(self, path, flags, mode=0):
        who = self.dice.choice(self.processes)
        got, wanted = self.both(who, "open", (path, flags, mode), (path, flags, mode))
        if got[0] == "error":
            return None
        self.last += 1
        self.opened[self.last] = who, got[1], wanted[1]
        return self.last

    def close(self, key):
        who, descriptor, local = self.opened.pop(key)
        self.both(who, "close", (descriptor,), (local,))

    def do(self, call, *arguments, show=None):
        if isinstance(arguments[0], str):
            return self.value(self.both(self.dice.choice(self.processes), call, arguments, arguments)[1], call)
        who = self.opened[arguments[0]][0]
        places = (0, 2) if call == "copy_file_range" else (0,)
        if any(self.opened[arguments[p]][0] is not who for p in places):
            return None  # no process has both files open
        sides = [[self.opened[a][side] if p in places else a for p, a in enumerate(arguments)] for side in (1, 2)]
        return self.value(self.both(who, call, *sides)[1], call)

    @staticmethod
    def value(outcome, call):
        if outcome[0] == "error":
            return None
        return Told(outcome[1] + (0, 0)) if call in ("stat", "lstat", "fstat") else outcome[1]


def command_of(kind, root):
    start = [sys.executable, os.path.abspath(__file__), "worker", kind, root]
    return [os.environ["SPATE"], "run", "--"] + start if root.startswith("/spate") else start


def walk(oracle, roots, seed, steps, outcome):
    processes = []
    try:
        processes = [Process(root, command_of(kind, root)) for kind, root in roots]
        mixed = Mixed(make_frontend("os", oracle), processes, seed)
        walker = Walk(mixed, seed)
        for _ in range(steps):
            walker.dice.choice((walker.open, walker.close, walker.on_names, walker.on_names, walker.on_names, walker.on_file,
                                walker.on_file, walker.on_file, walker.on_file, walker.looks))()
        walker.end()
        outcome.append((mixed.count, ""))
    except (Differ, EOFError) as error:
        outcome.append((0, "seed %d:\n  %s" % (seed, error)))
    finally:
        for process in processes:
            process.end()


def main():
    oracle, library, native, *others = sys.argv[1:]
    roots = [(library, native)] + [("os", root) for root in others]
    steps, seed = int(os.environ.get("FRONTENDS_STEPS", "250")), int(os.environ.get("FRONTENDS_SEED", "1"))
    walks, outcome = int(os.environ.get("FRONTENDS_WALKS", "2")), []
    os.umask(0o022)
    for first in range(seed, seed + max(1, steps // 500)):
        threads = [threading.Thread(target=walk, args=(oracle, roots, first * 1000 + n, min(steps, 500), outcome)) for n in range(walks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if any(wrong for _, wrong in outcome):
            break
    for _, wrong in outcome:
        if wrong:
            print(wrong)
    print("mixed: %d calls compared, by %d processes at a time" % (sum(count for count, _ in outcome), walks * len(roots)))
    sys.exit(any(wrong for _, wrong in outcome) or not outcome)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker(*sys.argv[2:])
    else:
        main()
