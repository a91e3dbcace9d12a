#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts each kind of damage into stores and folders of stopped servers. fsck finds and names it, repairs it, and finds
nothing afterwards. Nothing else is changed."""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import CLEAN, LEFT, REPAIRED, Checked, check, kinds, make_tree, same_tree  # noqa: E402

DIRECTORY, NOWHERE = 2, 50000  # a type; a handle that was reserved and never used


def stray_datafile(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"stray" * 100)
    os.chmod(path, 0o600)


def hash_folder(fs, handle, slot):
    """Returns the hashed folder of an existing datafile. Searches the servers for it, since Python has no XXH64."""
    name = "%016x.%d" % (handle, slot)
    for server in range(2, fs.io + 2):
        for path in fs.datafiles(server):
            if os.path.basename(path) == name:
                return os.path.basename(os.path.dirname(path))
    raise AssertionError("no datafile " + name)


def put_all(fs, names):
    data = {}
    for name in names:
        data[name] = os.urandom(3_000_000 if name.endswith("large") else 9_000)
        fs.spate("put", "spate:/d/" + name, input=data[name])
    return data


def unchanged(fs, data, names, where="/d/"):
    for name in names:
        check(fs.spate("cat", "spate:" + where + name) == data[name], where + name + " has other content")


def repairable(fs):
    fs.spate("mkdir", "spate:/d", "spate:/counts", "spate:/lost", "spate:/lost/inner", "spate:/from", "spate:/to", "spate:/to/child",
             "spate:/loop", "spate:/loop/a", "spate:/loop/a/b", "spate:/named")
    data = put_all(fs, ["dangling", "links", "orphan", "unlinked", "misfiled", "type", "xattr", "opens", "unasked", "cut",
                        "longer", "shorter_large", "live", "removed", "strayed", "inside"])
    fs.spate("mv", "spate:/d/inside", "spate:/lost/inside")
    h = {path: fs.handle(path) for path in ["/", "/d", "/counts", "/lost", "/from", "/to/child", "/loop", "/loop/a", "/loop/a/b", "/named"]}
    h.update({name: fs.handle("/d/" + name) for name in data if name != "inside"})
    # The state after a crash: the file was removed while a target was down, which then comes back with its datafile.
    fs.spate("cp", "-q", fs.root + "/random", "spate:/d/gone")
    gone = fs.handle("/d/gone")
    folder = hash_folder(fs, gone, 0)
    fs.spate("rm", "spate:/d/gone")
    damage = [
        "drop-inode", h["dangling"],
        "set", h["links"], "links", 5,
        "drop-entry", h["/d"], "orphan",
        "drop-entry", h["/d"], "unlinked", "set", h["unlinked"], "links", 0,
        "misfile-entry", h["/d"], "misfiled", h["misfiled"],
        "put-entry", h["/d"], "type", h["type"], DIRECTORY,
        "put-xattr", h["xattr"], "user.colour", "put-xattr", NOWHERE, "user.colour",
        "set", h["opens"], "write_opens", 2, "set", h["opens"], "size_known", 0,
        "set", h["unasked"], "size_known", 0,
        "set", h["cut"], "truncating", 1,
        "add-size", h["longer"], 12345,
        "set", h["shorter_large"], "size", 10,
        "put-removal", h["live"], h["live"], 1000,
        "put-answer", 777777,
        "set", h["/counts"], "size", 7,
        "drop-inode", h["/lost"],
        "set", h["/to/child"], "parent", h["/from"], "set", h["strayed"], "parent", h["/from"],
        "drop-entry", h["/loop"], "a", "put-entry", h["/loop/a/b"], "round", h["/loop/a"], DIRECTORY,
        "set", h["/loop/a"], "parent", h["/loop/a/b"],
        "put-entry", h["/"], "again", h["/named"], DIRECTORY,
    ]
    fs.damage(*damage)
    stray_datafile("%s/d/%s/%016x.0" % (fs.target(2), folder, gone))
    return data, h


EXPECTED = {
    "dangling-entry", "wrong-link-count", "orphan-inode", "unfinished-unlink", "misfiled-entry", "wrong-entry-type",
    "wrong-xattr-counts", "stray-xattr", "wrong-open-count", "size-not-asked", "truncate-without-intent", "wrong-size",
    "removal-of-live-file", "stray-answer", "wrong-directory-counts", "missing-directory", "wrong-parent",
    "directory-loop", "second-name", "orphan-datafile",
}


def test_repairable(fs):
    data, h = repairable(fs)
    findings, summary = fs.fsck_says(LEFT)
    found = kinds(findings)
    check(set(found) == EXPECTED, "found %s, missed %s" % (set(found) - EXPECTED, EXPECTED - set(found)))
    check(found.count("wrong-size") == 2 and found.count("missing-directory") == 1, found)
    by_kind = {f["damage"]: f for f in findings}
    check(by_kind["dangling-entry"]["path"] == "/d/dangling", by_kind["dangling-entry"])
    check(by_kind["wrong-link-count"]["path"] == "/d/links", by_kind["wrong-link-count"])
    strayed = sorted(f.get("path", "") for f in findings if f["damage"] == "wrong-parent")
    check("/d/strayed" in strayed and "/to/child" in strayed, strayed)
    check(by_kind["directory-loop"]["handle"] == h["/loop/a"], by_kind["directory-loop"])
    again, _ = fs.fsck_says(LEFT, "-n")
    # Datafiles of files removed before the damage disappear in the background, so there may be fewer each time. The
    # stray one stays.
    check(set(kinds(again)) == EXPECTED, "looking has changed something: %s" % kinds(again))
    check([k for k in kinds(again) if k != "orphan-datafile"] == [k for k in found if k != "orphan-datafile"], kinds(again))
    names_only, _ = fs.fsck_says(LEFT, "--names-only")
    check("orphan-datafile" not in kinds(names_only), kinds(names_only))

    repaired, summary = fs.fsck_says(REPAIRED, "--repair")
    check(set(kinds(repaired)) == EXPECTED, "repaired %s" % kinds(repaired))
    check(all(f["outcome"] == "repaired" for f in repaired), repaired)
    clean, summary = fs.fsck_says(CLEAN)
    check(clean == [] and summary["clean"], clean)

    unchanged(fs, data, ["links", "misfiled", "type", "xattr", "opens", "unasked", "cut", "longer", "shorter_large", "live", "removed", "strayed"])
    check(fs.spate("cat", "spate:/lost/inside") == data["inside"], "what the missing directory held")
    unchanged(fs, {"#%d" % h["orphan"]: data["orphan"]}, ["#%d" % h["orphan"]], "/lost+found/")
    check(fs.handle("/lost+found/#%d/b" % h["/loop/a"]) == h["/loop/a/b"], "what the loop held")
    names = [name for name in ("/named", "/again") if fs.run("stat", "spate:" + name).returncode == 0]
    check(len(names) == 1 and fs.handle(names[0]) == h["/named"], "the directory with two names: now %s" % names)
    fs.fails("stat", "spate:/d/dangling")
    fs.fails("stat", "spate:/d/unlinked")
    fs.spate("rm", "-r", "spate:/d", "spate:/lost", "spate:/loop", "spate:/to", "spate:/from", "spate:/counts", "spate:" + names[0], "spate:/lost+found")


def test_parents(fs):
    """Files of a store that an older version has written do not know their directories. A repair fills them in."""
    fs.spate("mkdir", "spate:/d")
    put_all(fs, ["old", "older"])
    fs.damage(*(word for name in ("old", "older") for word in ("set", fs.handle("/d/" + name), "parent", 0)))
    findings, _ = fs.fsck_says(CLEAN)
    check(findings == [], findings)
    findings, summary = fs.fsck_says(CLEAN, "--repair")
    check(findings == [] and summary["parents"] == 2, summary)
    _, summary = fs.fsck_says(CLEAN, "--repair")
    check(summary["parents"] == 0, summary)
    fs.spate("rm", "-r", "spate:/d")


def test_left(fs):
    """fsck reports damage that it cannot repair and changes nothing."""
    fs.spate("mkdir", "spate:/d")
    data = put_all(fs, ["garbled", "copied", "removed"])
    h = {name: fs.handle("/d/" + name) for name in data}
    fs.damage("garble-inode", h["garbled"], "put-lost-removal", NOWHERE, h["removed"], 1000)
    folder = hash_folder(fs, h["copied"], 0)
    name = "%s/%016x.0" % (folder, h["copied"])
    holder = next(s for s in range(2, fs.io + 2) if os.path.exists("%s/d/%s" % (fs.target(s), name)))
    other = next(s for s in range(2, fs.io + 2) if s != holder)
    shutil.copy2("%s/d/%s" % (fs.target(holder), name), "%s/d/%s" % (fs.target(other), name))
    expected = ["misplaced-datafile", "stuck-removal", "unreadable-record"]
    before = sorted(p for s in range(2, fs.io + 2) for p in fs.datafiles(s))
    for args in [(), ("--repair",)]:
        findings, summary = fs.fsck_says(LEFT, *args)
        check(kinds(findings) == expected, kinds(findings))
        left = {f["damage"]: f for f in findings}
        check(not args or all(f["outcome"] == "left" and f["note"] for f in findings), findings)
    check("60000" in left["stuck-removal"]["note"], left["stuck-removal"])
    check(sorted(p for s in range(2, fs.io + 2) for p in fs.datafiles(s)) == before, "datafiles have changed")
    unchanged(fs, data, ["copied", "removed"])


def test_server_down_and_wrong_keys(fs):
    fs.kill(3)
    done = fs.run("fsck", "--set", "client.deadline=2 s")
    check(done.returncode & 8 and b"NOT CHECKED: server 3" in done.stdout, done.stdout.decode())
    fs.up()
    other = fs.root + "/other.key"
    with open(other, "w") as f:
        f.write("ab" * 32 + "\n")
    os.chmod(other, 0o600)
    done = fs.run("fsck", "--set", "fs.server_key_file=" + other)
    check(done.returncode == 8 and "wrong server key" in done.stderr, "exit %d: %s" % (done.returncode, done.stderr))
    check(fs.run("fsck", "--repair", "-n").returncode == 2, "--repair and -n")


def main():
    with Checked(io=3) as fs:
        fs.up()
        make_tree(fs.root + "/tree", 120, large=1)
        with open(fs.root + "/random", "wb") as f:
            f.write(os.urandom(5000))
        fs.spate("cp", "-q", "-r", fs.root + "/tree", "spate:/tree")
        findings, summary = fs.fsck_says(CLEAN)
        check(findings == [] and summary["datafiles"] > 100, summary)
        test_repairable(fs)
        test_parents(fs)
        test_left(fs)
        test_server_down_and_wrong_keys(fs)
        fs.spate("cp", "-q", "-r", "spate:/tree", fs.root + "/back")
        same_tree(fs.root + "/tree", fs.root + "/back")


main()
