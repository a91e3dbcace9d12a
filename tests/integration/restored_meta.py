#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The meta server's store is put back from a backup, while the io servers have gone on: files were made, rewritten and removed since,
and members of groups were replaced. Old names come back with the newest data, and new files have nothing of files that are forgotten."""
import json
import os
import shutil
import subprocess

from cluster import Cluster, check, wait_until
from mirror import health, restart, wait_until_whole

META = 1
SIZE = 300000  # bytes; less than a strip
KEPT = {"spate:/kept%d" % i: os.urandom(SIZE + i) for i in range(6)}


def put_all(fs, files):
    for path, content in files.items():
        fs.spate("put", path, input=content)


def expect_content(fs, files, when):
    for path, content in files.items():
        check(fs.run("cat", path, timeout=120).stdout == content, "%s: %s has other bytes" % (when, path))


def handle(fs, path):
    return json.loads(fs.spate("stat", "--json", path))[0]["handle"]


def stop_meta(fs):
    fs.kill(META)
    return fs.dir + "/server-%d/keyval" % META


def copy_store(of, to):
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", of, to], check=True)


def make_backup(fs):
    copy_store(stop_meta(fs), fs.root + "/backup")
    restart(fs)


def put_back(fs):
    copy_store(fs.root + "/backup", stop_meta(fs))
    restart(fs)


def a_member_is_replaced(fs, server):
    fs.kill(server)
    wait_until(lambda: health(fs)["degraded"] > 0, "status says that copies are missing")
    wait_until_whole(fs)
    check("another target takes the place" in fs.logs(), "no server says that it has replaced another one")


def what_happens_after_the_backup(fs):
    """Returns what the kept files contain, and the numbers of the files that the backup does not know."""
    forgotten = {}
    for i in range(8):
        path = "spate:/later%d" % i
        fs.spate("put", path, input=b"\xff" * SIZE)
        forgotten[handle(fs, path)] = path
    removed = "spate:/later7"
    fs.spate("rm", removed)
    now = {path: os.urandom(SIZE // 2) for path in KEPT}
    for _ in range(3):  # each of these truncates the file
        put_all(fs, now)
    return now, forgotten


def new_files_are_new(fs, forgotten):
    made = {}
    for i in range(12):
        path = "spate:/new%d" % i
        fs.spate("put", path, input=b"")
        check(handle(fs, path) not in forgotten, "the number of %s is given out again" % forgotten.get(handle(fs, path)))
        made[path] = os.urandom(1000 + i)
    put_all(fs, made)
    return made


def findings(fs):
    done = fs.run("fsck", "--json", "--grace", "0")
    check(done.returncode in (0, 4), "fsck: exit %d, said: %s" % (done.returncode, done.stderr))
    return [finding["damage"] for finding in json.loads(done.stdout)["findings"]]


def main(fs):
    fs.env["SPATE_FLOW_REBUILD_AFTER"] = "2s"
    fs.up("--replicas", "2")
    put_all(fs, KEPT)
    wait_until_whole(fs)
    make_backup(fs)
    now, forgotten = what_happens_after_the_backup(fs)
    a_member_is_replaced(fs, 4)
    put_all(fs, now)  # server 4 does not have these
    put_back(fs)  # this starts server 4, too: it leads by the store that was put back, and has old copies
    wait_until_whole(fs)
    check("the meta store is an older copy of itself" in fs.log(META), "the meta server does not notice:\n" + fs.log(META))
    check("an io server knows files that were made later" in fs.log(META), "the meta server does not ask for numbers:\n" + fs.log(META))
    expect_content(fs, now, "after the store was put back")
    made = new_files_are_new(fs, forgotten)
    again = {path: content[:1000] for path, content in now.items()}
    put_all(fs, again)  # truncates each, though the io servers know later truncations
    expect_content(fs, {**again, **made}, "what was written after the store was put back")
    found = findings(fs)
    check("datafile-not-given" in found and "orphan-datafile" not in found, "fsck finds: %s" % found)
    for server in (2, 3, 4):
        fs.kill(server)
        expect_content(fs, {**again, **made}, "without server %d" % server)
        restart(fs)
        wait_until_whole(fs)
    done = fs.run("fsck", "--contents", "--json", timeout=120)
    left = {finding["damage"] for finding in json.loads(done.stdout)["findings"]}
    check(left <= {"datafile-not-given"}, "fsck --contents finds: %s" % left)


if __name__ == "__main__":
    with Cluster(io=4) as cluster:
        main(cluster)
