#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One copy of mirrored files is changed behind Spate's back: a datafile is removed, or gets a hole. fsck tells a lost datafile from a
hole, brings it back from the other copy, and replaces a copy with other contents only when it is told which one is right.

  copies.py          a backup is damaged
  copies.py --all    also a primary, both members, and one of three copies; and the rate is kept
"""
import ctypes
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import CLEAN, INCOMPLETE, LEFT, REPAIRED, Checked, alive, check, kinds, wait_until  # noqa: E402

SIZE, ZEROS = 65536, (16384, 32768)  # of a file in one strip; the range that holds zeros
NAMES = ("zeros", "data", "lost", "led", "led-data")
NOTES_GO = 25  # s: a server that comes back is mostly not given what has changed before this
KEEP_SIZE, PUNCH_HOLE = 1, 2
LARGE, SLOW = 12, 4  # MiB of a file; MiB/s
PATIENT = 240  # s
STAYS = 4  # s


def content():
    data = bytearray(b"x" * SIZE)
    data[ZEROS[0]:ZEROS[1]] = bytes(ZEROS[1] - ZEROS[0])
    return bytes(data)


def targets_of(fs, name):
    """The primary's first."""
    return json.loads(fs.spate("getstripe", "--json", "spate:/" + name))[0]["slots"][0]


def datafile(fs, name, target):
    file = "%016x.0" % fs.handle("/" + name)
    return next((path for path in fs.datafiles(target // 256) if os.path.basename(path) == file), None)


def remove(path):
    if os.path.exists(path):
        os.unlink(path)


def punch(path, begin, end):
    with open(path, "r+b") as file:
        calls = ctypes.CDLL(None, use_errno=True)
        done = calls.fallocate(file.fileno(), KEEP_SIZE | PUNCH_HOLE, ctypes.c_long(begin), ctypes.c_long(end - begin))
    check(done == 0, "fallocate: %s" % os.strerror(ctypes.get_errno()))


class Mirrored(Checked):
    def when_whole(self):
        def whole():
            rows = json.loads(self.run("status", "--json").stdout or b"[]")
            return any(row.get("groups", 0) > 0 and row["degraded"] == 0 for row in rows)
        seen = []

        def stays_whole():
            # A member that was started anew is still counted until the one that leads hears of it.
            if not whole():
                seen.clear()
                return False
            seen.append(time.monotonic())
            return seen[-1] - seen[0] > STAYS
        wait_until(stays_whole, "all groups are whole", PATIENT)

    def while_down(self, servers, change, is_made):
        """Changes datafiles of servers that are down. What the change logs still name comes back with the server: then it tries again."""
        for _ in range(6):
            # If both end, none of them returns to the other now, and is_made() does not show what the logs still name.
            time.sleep(NOTES_GO * len(servers))
            for server in servers:
                self.kill(server)
            change()
            self.up()
            self.when_whole()
            if is_made():
                return
        raise AssertionError("a change of a datafile does not last")

    def make_lead(self, name, target):
        """The other member ends in order and comes back."""
        other = next(one for one in targets_of(self, name) if one != target)
        pid = self.pids()[other // 256]
        self.kill(other // 256, sig=signal.SIGTERM)
        wait_until(lambda: not alive(pid), "a server ends that was told to", PATIENT)
        self.up()
        self.when_whole()
        check(targets_of(self, name)[0] == target, "target %d does not lead" % target)

    def put_in_one_group(self):
        """Puts the files of NAMES, all with copies on the same two targets. Returns these, the primary's first."""
        pair = None
        for name in NAMES:
            for _ in range(60):
                self.spate("put", "spate:/" + name, input=content())
                found = targets_of(self, name)
                pair = pair or found
                if found == pair:
                    break
                self.spate("rm", "spate:/" + name)
            check(found == pair, "no file in the same group")
        return pair

    def files_are_as_written(self, pair):
        for name in NAMES:
            check(self.spate("cat", "spate:/" + name) == content(), "the content of %s" % name)
            for target in pair:
                path = datafile(self, name, target)
                check(path is not None, "%s has no datafile on target %d" % (name, target))
                with open(path, "rb") as file:
                    check(file.read() == content(), "the copy of %s on target %d" % (name, target))

    def expect(self, code, wanted, why, *args):
        """`spate fsck ARGS` exits with `code` and has these findings: [(damage, handle, outcome)]."""
        found = self.fsck_says(code, *args)[0]
        there = sorted((one["damage"], one["handle"], one["outcome"]) for one in found)
        check(there == wanted, "%s: fsck %s says %s" % (why, " ".join(args), found))


def begins_with_zeros(path):
    with open(path, "rb") as file:
        return file.read(4096) == bytes(4096)


def a_backup_is_damaged(fs, good, bad):
    paths = {name: datafile(fs, name, bad) for name in NAMES}

    def change():
        punch(paths["zeros"], *ZEROS)  # reads the same
        punch(paths["data"], 0, 4096)
        remove(paths["lost"])
    fs.while_down([bad // 256], change, lambda: begins_with_zeros(paths["data"]) and not os.path.exists(paths["lost"]))
    lost, data = fs.handle("/lost"), fs.handle("/data")
    found = fs.fsck_says(LEFT)[0]
    check(kinds(found) == ["missing-copy"] and found[0]["handle"] == lost, found)
    check(found[0]["recorded"] == SIZE and found[0]["actual"] == 0 and found[0]["target"] == bad, found)
    check("is lost" in found[0]["text"], found)
    told = fs.run("fsck").stdout.decode()
    check("--repair copies it from the server that has it" in told, told)
    fs.expect(LEFT, [("missing-copy", lost, "found"), ("unequal-contents", data, "left")], "both are found", "--contents")
    # What is lost comes back. Nobody has said which of the two contents is right.
    fs.expect(REPAIRED + LEFT, [("missing-copy", lost, "repaired"), ("unequal-contents", data, "left")], "only what is lost is repaired", "--contents", "--repair")
    check(begins_with_zeros(paths["data"]), "fsck has guessed")
    both = ("--trust", str(good), "--trust", str(bad))
    fs.expect(LEFT, [("unequal-contents", data, "left")], "to trust both says nothing", "--contents", "--repair", *both)
    other_file = "%d:%d" % (good, lost)
    fs.expect(LEFT, [("unequal-contents", data, "left")], "it is trusted for another file", "--contents", "--repair", "--trust", other_file)
    said = fs.run("fsck", "--contents", "--trust", str(good)).stdout.decode()
    check("`spate fsck --contents --repair --trust %d`" % good in said, "the command that repairs it: " + said)
    this_file = "%d:%d" % (good, data)
    fs.expect(REPAIRED, [("unequal-contents", data, "repaired")], "a trusted copy", "--contents", "--repair", "--trust", this_file)
    fs.expect(CLEAN, [], "it is repaired", "--contents")


def a_primary_is_damaged(fs, good, bad):
    """The other member leads then, or the loss would become that of all."""
    paths = {name: datafile(fs, name, bad) for name in NAMES}

    def change():
        remove(paths["led"])
        punch(paths["led-data"], 0, 4096)
    fs.while_down([bad // 256], change, lambda: begins_with_zeros(paths["led-data"]) and not os.path.exists(paths["led"]))
    fs.make_lead("led", bad)
    led, data = fs.handle("/led"), fs.handle("/led-data")
    fs.expect(REPAIRED, [("missing-copy", led, "repaired")], "what the primary has lost", "--repair")
    check(targets_of(fs, "led")[0] == good, "the member that has the datafile does not lead")
    check(fs.spate("cat", "spate:/led") == content(), "the content of what the primary had lost")
    fs.when_whole()
    fs.make_lead("led", bad)
    fs.expect(REPAIRED, [("unequal-contents", data, "repaired")], "a primary that is not trusted", "--contents", "--repair", "--trust", str(good))
    fs.expect(CLEAN, [], "it is repaired", "--contents")


def both_are_damaged(fs, leads, other):
    """Each has the only good copy of something. Nothing is repaired from a member before its own copies are good."""
    led_paths = {target: datafile(fs, "led", target) for target in (leads, other)}
    data_path, lost_path = datafile(fs, "data", other), datafile(fs, "lost", other)

    def change():
        remove(led_paths[leads])
        punch(data_path, 0, 4096)
        remove(lost_path)

    def is_made():
        return begins_with_zeros(data_path) and not os.path.exists(lost_path) and not os.path.exists(led_paths[leads])
    fs.while_down([leads // 256, other // 256], change, is_made)
    if targets_of(fs, "led")[0] != leads:
        fs.make_lead("led", leads)
    led, data, lost = fs.handle("/led"), fs.handle("/data"), fs.handle("/lost")
    fs.kill(other // 256)
    found = fs.fsck_says(LEFT + INCOMPLETE, "--repair")[0]
    check([(one["damage"], one["handle"], one["outcome"]) for one in found] == [("wrong-size", led, "left")], found)
    fs.up()
    fs.when_whole()
    wanted = [("missing-copy", led, "left"), ("missing-copy", lost, "repaired"), ("unequal-contents", data, "left")]
    fs.expect(REPAIRED + LEFT, sorted(wanted), "a member whose copy may be wrong does not lead", "--contents", "--repair")
    check(targets_of(fs, "led")[0] == leads, "the other member leads")
    with open(led_paths[other], "rb") as file:
        check(file.read() == content(), "the last copy is changed")
    wanted = [("missing-copy", led, "repaired"), ("unequal-contents", data, "repaired")]
    fs.expect(REPAIRED, sorted(wanted), "in this order", "--contents", "--repair", "--trust", str(leads))
    check(targets_of(fs, "led")[0] == other, "the member with the only copy does not lead")
    fs.expect(CLEAN, [], "all is repaired", "--contents")


def one_of_three_is_damaged(fs):
    """One finding for each wrong copy, which names that copy."""
    fs.spate("mkdir", "spate:/three")
    fs.spate("policy", "set", "spate:/three", "replicas=3")
    fs.spate("put", "spate:/three/short", input=content())
    handle, targets = fs.handle("/three/short"), targets_of(fs, "three/short")
    check(len(targets) == 3, targets)
    fs.when_whole()
    path = datafile(fs, "three/short", targets[1])
    fs.while_down([targets[1] // 256], lambda: os.truncate(path, 4096), lambda: os.path.getsize(path) == 4096)
    if targets_of(fs, "three/short")[0] != targets[0]:
        fs.make_lead("three/short", targets[0])
    found = fs.fsck_says(LEFT)[0]
    check([(one["damage"], one["handle"], one["target"]) for one in found] == [("unequal-copies", handle, targets[1])], found)
    check("spate fsck --contents --repair --trust" in found[0]["note"], found)
    fs.expect(REPAIRED, [("unequal-copies", handle, "repaired")], "a short copy", "--repair", "--trust", str(targets[2]), "--trust", str(targets[0]))
    fs.expect(CLEAN, [], "it is repaired", "--contents")


def the_rate_is_kept(fs):
    fs.spate("put", "spate:/large", input=os.urandom(LARGE << 20))
    fs.when_whole()
    began = time.monotonic()
    fs.expect(CLEAN, [], "all is equal", "--contents", "--rate", str(SLOW))
    took = time.monotonic() - began
    check(took > LARGE / SLOW - 1, "%d MiB were read in %.1f s, at %d MiB a second" % (LARGE, took, SLOW))


def main():
    with Mirrored(io=3) as fs:
        fs.up("--replicas", "2")
        first, second = fs.put_in_one_group()
        fs.when_whole()
        fs.expect(CLEAN, [], "copies differ although nobody has changed them", "--contents")
        everything = sys.argv[1:] == ["--all"]
        a_backup_is_damaged(fs, first, second)
        if everything:
            a_primary_is_damaged(fs, first, second)
            both_are_damaged(fs, *targets_of(fs, "led"))
            fs.files_are_as_written((first, second))
            one_of_three_is_damaged(fs)
            the_rate_is_kept(fs)
        check(fs.run("fsck", "--trust", "seven").returncode == 2, "--trust needs a number")
        check(fs.run("fsck", "--trust", "%d:" % first).returncode == 2, "--trust needs an object after the colon")
        refused = fs.run("fsck", "--trust", "77777")
        check(refused.returncode == INCOMPLETE and "77777" in refused.stderr, refused)


main()
