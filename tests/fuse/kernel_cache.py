#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mounts whose kernel keeps names and attributes: kernel_cache.py changes|random|busy|race|again|restart MOUNT..."""
import itertools
import multiprocessing
import os
import random
import stat
import subprocess
import sys
import threading
import time


def look(path):
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def warm(*paths):
    """Makes the kernel keep all existing names and some missing ones."""
    for path in paths * 3:
        look(path)


def equal(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: {got!r}, should be {wanted!r}")


def write(path, text, mode="w"):
    with open(path, mode) as f:
        f.write(text)


class Pair:
    """One folder through two mounts. The first one makes changes; the second one, which has cached everything, looks at
    them."""

    def __init__(self, one, other):
        self.folder = f"pair-{os.path.basename(one)}-{os.path.basename(other)}"
        self.one, self.other = os.path.join(one, self.folder), os.path.join(other, self.folder)
        os.mkdir(self.one)
        for name in ("file", "gone", "from", "to", "over", "linked", "empty"):
            write(os.path.join(self.one, name), name)
        for name in ("dir", "dir2", "away"):
            os.mkdir(os.path.join(self.one, name))
        write(os.path.join(self.one, "dir", "inside"), "inside")

    def a(self, name=""):
        return os.path.join(self.one, name)

    def b(self, name=""):
        return os.path.join(self.other, name)

    def seen(self, change, *names):
        """Makes the change, and then yields how each of the two mounts sees the names."""
        for side in (self.a, self.b):
            warm(*(side(name) for name in names), side())
        change()
        for side in (self.b, self.a):
            yield [look(side(name)) for name in names], look(side())

    def check_attributes(self):
        write(self.a("file"), "12345")
        changes = [
            (lambda: os.chmod(self.a("file"), 0o604), lambda s: stat.S_IMODE(s.st_mode), 0o604),
            (lambda: os.utime(self.a("file"), (1000, 2000)), lambda s: (s.st_atime, s.st_mtime), (1000, 2000)),
            (lambda: os.truncate(self.a("file"), 3), lambda s: s.st_size, 3),
            (lambda: write(self.a("file"), "more", "a"), lambda s: s.st_size, 7),
            (lambda: os.link(self.a("file"), self.a("hard")), lambda s: s.st_nlink, 2),
            (lambda: os.unlink(self.a("hard")), lambda s: s.st_nlink, 1),
        ]
        if os.geteuid() == 0:
            changes.append((lambda: os.chown(self.a("file"), 12, 34), lambda s: (s.st_uid, s.st_gid), (12, 34)))
        held = os.open(self.b("file"), os.O_PATH)  # stat without a name
        for number, (change, what, wanted) in enumerate(changes):
            os.fstat(held), os.fstat(held)
            for (found,), _ in self.seen(change, "file"):
                equal(f"{self.folder}: change {number} of the attributes", what(found), wanted)
                change = None
            equal(f"{self.folder}: change {number}, of what is open", what(os.fstat(held)), wanted)
        os.close(held)

    def check_names(self):
        def expect(change, names, *wanted):
            for found, _ in self.seen(change, *names):
                equal(f"{self.folder}: {names}", [f is not None for f in found], list(wanted))
        expect(lambda: write(self.a("new"), ""), ["new"], True)
        expect(lambda: os.unlink(self.a("gone")), ["gone"], False)
        expect(lambda: os.rename(self.a("from"), self.a("moved")), ["from", "moved"], False, True)
        expect(lambda: os.symlink("file", self.a("symlink")), ["symlink"], True)
        expect(lambda: os.mkdir(self.a("made")), ["made", "made/x"], True, False)
        expect(lambda: write(self.a("made/x"), ""), ["made/x"], True)
        os.unlink(self.a("made/x"))
        expect(lambda: os.rmdir(self.a("made")), ["made", "made/x"], False, False)
        expect(lambda: os.link(self.a("linked"), self.a("dir/linked")), ["linked", "dir/linked"], True, True)
        expect(lambda: os.rename(self.a("dir"), self.a("dir2")), ["dir/inside", "dir2/inside"], False, True)
        expect(lambda: os.rename(self.a("dir2/inside"), self.a("away/inside")), ["dir2/inside", "away/inside"], False, True)
        expect(lambda: os.unlink(self.b("away/inside")), ["away/inside"], False)
        replaced = look(self.b("over")).st_ino
        for (over, to), _ in self.seen(lambda: os.rename(self.a("to"), self.a("over")), "over", "to"):
            equal(f"{self.folder}: the replaced", (over.st_ino != replaced, to), (True, None))
        before = look(self.b())
        for _, folder in self.seen(lambda: os.mkdir(self.a("another")), "another"):
            equal(f"{self.folder}: its folder", (folder.st_mtime_ns > before.st_mtime_ns, folder.st_nlink), (True, before.st_nlink + 1))

    def check_being_written(self):
        """A writer that has the file open sends nothing to the meta server when it writes."""
        with open(self.a("empty"), "wb", buffering=0) as f:
            for i in range(1, 6):
                warm(self.b("empty"))
                f.write(b"line\n")
                equal(f"{self.folder}: the size while it is written", look(self.b("empty")).st_size, 5 * i)

    def check_folder_of_a_process(self):
        """A process in the folder uses ".", for which nobody looks up a name."""
        here = os.getcwd()
        os.chdir(self.b("away"))
        os.stat("."), os.stat(".")
        os.chmod(self.a("away"), 0o711)
        equal(f"{self.folder}: the folder that a process is in", stat.S_IMODE(os.stat(".").st_mode), 0o711)
        equal(f"{self.folder}: its path", os.getcwd(), self.b("away"))
        os.chdir(here)


def changes(*mounts):
    for one, other in itertools.permutations(mounts, 2):
        pair = Pair(one, other)
        pair.check_attributes()
        pair.check_names()
        pair.check_being_written()
        pair.check_folder_of_a_process()


class Model:
    """Makes random changes through any mount. After each one, every mount must show what a dictionary holds."""
    NAMES = [f"{d}{n}" for d in ("", "p/", "q/") for n in ("v", "w", "x", "y")]

    def __init__(self, mounts, seed):
        self.random = random.Random(seed)
        self.roots = [os.path.join(m, "model") for m in mounts]
        self.files = {}  # name -> a record, which hard links share
        self.written = []
        for name in ("", "p", "q"):
            os.mkdir(os.path.join(self.roots[0], name))

    def at(self, name):
        return os.path.join(self.random.choice(self.roots), name)

    def turn(self):
        what = self.random.choice(["create", "unlink", "rename", "rename", "link", "chmod", "truncate", "append", "utime", "replace"])
        name, other = self.random.sample(self.NAMES, 2)
        there, there_too = name in self.files, other in self.files
        if what == "create" and not there:
            write(self.at(name), "", "x")
            self.files[name] = {"mode": 0o644, "size": 0, "links": 1}
            os.chmod(self.at(name), 0o644)
        elif what == "replace":
            write(self.at(name), "replaced")
            self.files.setdefault(name, {"mode": None, "links": 1})["size"] = 8
            if self.files[name]["mode"] is None:
                os.chmod(self.at(name), 0o600)
                self.files[name]["mode"] = 0o600
        elif not there:
            return what
        elif what == "unlink":
            os.unlink(self.at(name))
            self.files.pop(name)["links"] -= 1
        elif what == "rename":
            root = self.random.choice(self.roots)
            os.rename(os.path.join(root, name), os.path.join(root, other))
            if there_too and self.files[other] is self.files[name]:
                return what  # both names belong to one file: rename does nothing
            if there_too:
                self.files[other]["links"] -= 1
            self.files[other] = self.files.pop(name)
        elif what == "link" and not there_too:
            root = self.random.choice(self.roots)
            os.link(os.path.join(root, name), os.path.join(root, other))
            self.files[other] = self.files[name]
            self.files[name]["links"] += 1
        elif what == "chmod":
            self.files[name]["mode"] = self.random.choice([0o600, 0o640, 0o644, 0o604])
            os.chmod(self.at(name), self.files[name]["mode"])
        elif what == "truncate":
            self.files[name]["size"] = self.random.randrange(100)
            os.truncate(self.at(name), self.files[name]["size"])
        elif what == "append":
            write(self.at(name), "more", "a")
            self.files[name]["size"] += 4
        elif what == "utime":
            self.files[name]["mtime"] = self.random.randrange(1, 1000)
            os.utime(self.at(name), (1, self.files[name]["mtime"]))
            return what
        if there and what in ("append", "truncate", "replace"):
            self.files[name].pop("mtime", None)
        return what

    def check(self, what):
        for root in self.random.sample(self.roots, len(self.roots)):
            for name in self.random.sample(self.NAMES, 5):
                record, found = self.files.get(name), look(os.path.join(root, name))
                if record is None or found is None:
                    equal(f"{root}/{name} after {what}", found, record)
                    continue
                told = {"mode": stat.S_IMODE(found.st_mode), "size": found.st_size, "links": found.st_nlink, "mtime": int(found.st_mtime)}
                equal(f"{root}/{name} after {what}", {key: told[key] for key in record}, record)


def random_changes(*mounts):
    seed = int(os.environ.get("SPATE_SEED", time.time_ns() % 1000000))
    print(f"seed {seed}")
    model = Model(mounts, seed)
    until = time.monotonic() + float(os.environ.get("SPATE_SECONDS", "5"))
    turns = 0
    while time.monotonic() < until:
        model.check(model.turn())
        turns += 1
    print(f"{turns} changes")


def busy(one, other):
    """A process of the other mount constantly creates and removes names in the folder. Neither process may stop."""
    os.mkdir(os.path.join(one, "busy"))
    stop, made = threading.Event(), [0]

    def make():
        while not stop.is_set():
            path = os.path.join(one, "busy", f"own{made[0] % 5}")
            write(path, "")
            os.mkdir(path + "d")
            os.rename(path, path + "d/x")
            os.unlink(path + "d/x")
            os.rmdir(path + "d")
            made[0] += 1
    maker = threading.Thread(target=make)
    maker.start()
    begin = time.monotonic()
    longest = 0
    for i in range(100):
        path = os.path.join(other, "busy", "theirs")
        seen = os.path.join(one, "busy", "theirs")
        at = time.monotonic()
        warm(seen)
        write(path, str(i))
        equal("what the other has made", look(seen) is not None, True)
        warm(seen)
        os.unlink(path)
        equal("what the other has removed", look(seen), None)
        longest = max(longest, time.monotonic() - at)
    took = time.monotonic() - begin
    stop.set()
    maker.join()
    print(f"busy: 200 changes in {took:.1f} s, the longest two {longest:.2f} s; beside {made[0]} rounds")
    # A lease expires after 2 s. If a change waited for the kernel while the kernel waits for us, it would take as long.
    if took > 60 or made[0] < 20:
        raise SystemExit("somebody waits for somebody")


def race(one, other):
    """Lookups that overlap changes: a lookup may not return a state older than a change that had been answered before
    the lookup began."""
    begun, done = multiprocessing.Value("q", 0, lock=False), multiprocessing.Value("q", 0, lock=False)
    folders = [os.path.join(mount, "race") for mount in (one, other)]
    os.mkdir(folders[0])
    for name in ("n0", "time"):
        write(os.path.join(folders[0], name), "")
    until = time.monotonic() + float(os.environ.get("SPATE_SECONDS", "5"))

    def read(folder):
        at = os.path.join(folder, "time")
        held, looks = os.open(at, os.O_PATH), 0
        while time.monotonic() < until:
            for ask in (lambda: os.fstat(held), lambda: os.lstat(at)):
                least = done.value
                equal(f"{folder}: an older time than that of change {least}", ask().st_mtime >= least, True)
            now = done.value
            there, gone = look(os.path.join(folder, f"n{now}")), look(os.path.join(folder, f"n{now - 1}"))
            if begun.value == now:
                equal(f"{folder}: n{now}", there is not None, True)
            equal(f"{folder}: n{now - 1}", gone, None)
            look(os.path.join(folder, f"n{now + 1}"))
            looks += 1
        print(f"{folder}: {looks} looks beside {done.value} changes")
    readers = [multiprocessing.Process(target=read, args=(folder,)) for folder in (folders[0], folders[0], folders[1])]
    for reader in readers:
        reader.start()
    i = 0
    while time.monotonic() < until and all(reader.is_alive() for reader in readers):
        i += 1
        folder = folders[i // 3 % 2]
        begun.value = i
        os.utime(os.path.join(folder, "time"), (i, i))
        os.rename(os.path.join(folder, f"n{i - 1}"), os.path.join(folder, f"n{i}"))
        done.value = i
    for reader in readers:
        reader.join()
    equal("what the readers found", [reader.exitcode for reader in readers], [0, 0, 0])


def again(mount, times):
    warm(os.path.join(mount, "there"), os.path.join(mount, "nothing"))
    for _ in range(int(times) // 2):
        assert (got := look(os.path.join(mount, "there"))) is not None, got
        assert (got := look(os.path.join(mount, "nothing"))) is None, got


def restart(one, other, command, after=None):
    """While the command runs, and after it, the second mount changes files that the first has cached."""
    with open(os.path.join(other, "kept"), "w") as f:
        f.write("kept")
    for name in ("left", "left2"):
        write(os.path.join(other, name), "")
    for name in ("came", "moved"):
        if look(os.path.join(other, name)):
            os.unlink(os.path.join(other, name))
    os.chmod(os.path.join(other, "kept"), 0o644)
    path = {name: os.path.join(one, name) for name in ("kept", "left", "left2", "came", "moved")}
    held = os.open(path["kept"], os.O_PATH)
    warm(*path.values())
    os.fstat(held), os.fstat(held)
    subprocess.run(command, shell=True, check=True)
    if not after:
        os.statvfs(one)  # the new process has contacted the server: no change waits until leases expire
    os.chmod(os.path.join(other, "kept"), 0o611)
    os.unlink(os.path.join(other, "left"))
    os.rename(os.path.join(other, "left2"), os.path.join(other, "moved"))
    write(os.path.join(other, "came"), "")
    if after:  # the mount's process is stopped, so the kernel must not answer either
        asked = subprocess.Popen(["stat", "-c", "%a", path["kept"]], stdout=subprocess.PIPE, text=True)
        until("a program waits for the mount", lambda: waits_for_the_mount(asked.pid))
        subprocess.run(after, shell=True, check=True)
        equal("what was asked meanwhile", asked.communicate(timeout=60)[0].strip(), "611")
    equal("what is open", stat.S_IMODE(os.fstat(held).st_mode), 0o611)
    equal("what is kept", stat.S_IMODE(look(path["kept"]).st_mode), 0o611)
    equal("names", {name: look(at) is not None for name, at in path.items()},
          {"kept": True, "left": False, "left2": False, "came": True, "moved": True})
    os.close(held)


def until(what, true):
    limit = time.monotonic() + 30
    while not true():
        if time.monotonic() > limit:
            raise SystemExit(f"not in time: {what}")
        time.sleep(0.01)


def waits_for_the_mount(pid):
    with open(f"/proc/{pid}/wchan") as f:
        return "request_wait" in f.read()


if __name__ == "__main__":
    what = {"changes": changes, "random": random_changes, "busy": busy, "race": race, "again": again, "restart": restart}
    what[sys.argv[1]](*sys.argv[2:])
