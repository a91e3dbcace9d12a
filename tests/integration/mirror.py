#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mirrored files: each io server is killed, stopped, wiped and ended in order while programs write and read. No call fails, no byte
is lost, and the server that comes back is brought up to date."""
import json
import os
import shutil
import signal
import subprocess
import sys

from cluster import SPATE, SPATED, Cluster, alive, check, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
# After 2 s of silence another member takes over. Then clients have to find it. A loaded machine takes longer.
LONGEST_PAUSE = float(os.environ.get("SPATE_LONGEST_PAUSE", "20"))
META = 1


class Worker:
    """A program that works on its own file."""

    def __init__(self, fs, number, preload):
        self.name = "%s-%d" % ("preload" if preload else "library", number)
        self.log = "%s/%s.out" % (fs.root, self.name)
        program = [sys.executable, HERE + "/mirror_worker.py"]
        if preload:
            command = [SPATE, "run", *program, "/spate/" + self.name, str(number)]
        else:
            command = [*program, "/" + self.name, str(number), fs.dir]
        with open(self.log, "wb") as out:
            self.child = subprocess.Popen(command, env=fs.env, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE)
        fs.seen.add(self.child.pid)

    def lines(self):
        with open(self.log) as f:
            return f.read().split("\n")[:-1]

    def goes_on(self, seconds=40):
        before = len(self.lines())
        wait_until(lambda: len(self.lines()) > before + 2 or self.child.poll() is not None, self.name + " goes on", seconds)
        check(self.child.poll() is None, "%s has ended: %s" % (self.name, self.child.stderr.read() if self.child.poll() is not None else ""))

    def end(self):
        self.child.stdin.close()
        said = self.child.stderr.read().decode(errors="replace")
        check(self.child.wait(timeout=60) == 0, "%s failed: %s" % (self.name, said))
        last = self.lines()[-1].split()
        check(last[0] == "longest", "%s did not end in order: %s" % (self.name, last))
        return float(last[1])


def health(fs):
    """Returns what `spate status` reports about the groups."""
    rows = json.loads(fs.run("status", "--json").stdout or b"[]")
    return next((row for row in rows if "groups" in row), {"groups": 0, "degraded": 0})


def wait_until_whole(fs, seconds=60):
    wait_until(lambda: health(fs)["groups"] > 0 and health(fs)["degraded"] == 0, "all groups are whole again", seconds)


def restart(fs):
    fs.spate("up", "-q", "--dir", fs.dir)
    fs.seen.update(fs.pids().values())


def killed(fs, server):
    fs.kill(server)
    return lambda: restart(fs)


def ended(fs, server):
    """In order: others lead its groups first."""
    pid = fs.pids()[server]
    fs.kill(server, sig=signal.SIGTERM)
    wait_until(lambda: not alive(pid), "a server ends that was told to")
    return lambda: restart(fs)


def stopped(fs, server):
    fs.kill(server, sig=signal.SIGSTOP)
    return lambda: fs.kill(server, sig=signal.SIGCONT)


def wiped(fs, server):
    fs.kill(server)
    folder = "%s/server-%d" % (fs.dir, server)

    def give_back():
        shutil.rmtree(folder)
        os.mkdir(folder, 0o700)
        with open(folder + "/unformatted", "w"):
            pass  # the marker file of a server that has no store yet
        restart(fs)

    return give_back


def disturbed(fs, workers, what, server):
    """The programs go on while one io server is away and after it has come back."""
    before = {worker: len(worker.lines()) for worker in workers}
    give_back = what(fs, server)
    for worker in workers:
        worker.goes_on()
    wait_until(lambda: health(fs)["degraded"] > 0, "status says that copies are missing")
    give_back()
    wait_until_whole(fs)
    for worker in workers:
        worker.goes_on()
    print("%s, server %d: %s operations" % (what.__name__, server, [10 * (len(w.lines()) - before[w]) for w in workers]), flush=True)


def each_server_may_be_lost(fs):
    fs.up("--replicas", "2")
    workers = [Worker(fs, 1, False), Worker(fs, 2, True)]
    for worker in workers:
        worker.goes_on()
    check(health(fs)["groups"] > 0, "status says nothing of the groups")
    for server in range(META + 1, META + 1 + fs.io):
        for what in (killed, stopped, wiped, ended):
            disturbed(fs, workers, what, server)
    wait_until_whole(fs)
    fs.fsck("--contents")  # copies that are being written are not damaged
    pauses = [worker.end() for worker in workers]
    print("longest calls: %s s" % pauses)
    check(max(pauses) <= LONGEST_PAUSE, "a call took %.2f s" % max(pauses))
    fs.fsck()
    fs.fsck("--contents")


def fsck_finds(fs, damage, *options):
    done = fs.complete_fsck("--json", *options)
    found = [finding["damage"] for finding in json.loads(done.stdout)["findings"]]
    said = "%s%s" % (done.stdout.decode(), done.stderr)
    check(done.returncode == 4 and damage in found, "fsck finds %s, not only %s: exit %d\n%s" % (found, damage, done.returncode, said))


def fsck_compares_the_copies(fs, path):
    """Changes a byte of one copy behind Spate's back, then cuts it short. An emptied server receives all copies again."""
    primary, other = json.loads(fs.spate("getstripe", "--json", path))[0]["slots"][0]
    check(primary != other, "a group of one target")
    server = other // 256
    name = "%016x.0" % json.loads(fs.spate("stat", "--json", path))[0]["handle"]
    datafile = next(file for file in fs.datafiles(server) if os.path.basename(file) == name)
    fs.fsck("--contents")
    with open(datafile, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    fs.fsck()
    fsck_finds(fs, "unequal-contents", "--contents")
    os.truncate(datafile, os.path.getsize(datafile) - 10)
    fsck_finds(fs, "unequal-copies")
    give_back = wiped(fs, server)
    # Do not recreate a single folder: its server would count as complete, and reads would return zeros.
    shutil.rmtree("%s/server-%d/target-0" % (fs.dir, server))
    done = subprocess.run([SPATED, "--config", fs.dir + "/spate.toml", "--server", str(server), "--format"], env=fs.env, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode != 0 and "mirrored files had a copy there: empty" in done.stdout, "one folder is empty: %s" % done.stdout)
    give_back()
    wait_until_whole(fs)
    fs.fsck()
    fs.fsck("--contents")


def a_directory_says_how_many_copies(fs):
    fs.up()
    fs.spate("mkdir", "spate:/twice")
    told = json.loads(fs.spate("policy", "--json", "get", "spate:/twice"))
    check(told == [{"path": "spate:/twice", "replicas": 1, "default": True, "min": 1, "min_default": True}], "policy get: %s" % told)
    told = fs.fails("policy", "set", "spate:/twice", "replicas=4")
    check("replicas=4 needs as many io servers, and the file system has 3" in told, told)
    fs.spate("policy", "set", "spate:/twice", "replicas=2")
    check(json.loads(fs.spate("policy", "--json", "get", "spate:/twice"))[0]["replicas"] == 2, "policy get")
    fs.spate("mkdir", "spate:/twice/below")
    fs.spate("put", "spate:/twice/below/file", input=b"x" * 100000)
    fs.spate("put", "spate:/once", input=b"y" * 100000)
    for words, text in ((("sett", "spate:/twice"), "policy takes set or get"), (("get", "spate:/once"), "getstripe")):
        told = fs.fails("policy", *words)
        check(text in told, "policy %s: %s" % (words, told))
    told = json.loads(fs.spate("getstripe", "--json", "spate:/twice/below/file", "spate:/once"))
    check(all(len(set(slot)) == 2 for slot in told[0]["slots"]), "a mirrored file: %s" % told[0])
    check(all(len(slot) == 1 for slot in told[1]["slots"]), "a file without copies: %s" % told[1])
    check("mirrors" in fs.spate("status").decode(), "status tells of the groups")
    for server in range(META + 1, META + 1 + fs.io):
        fs.kill(server)
        check(fs.run("cat", "spate:/twice/below/file").stdout == b"x" * 100000, "the file cannot be read without server %d" % server)
        restart(fs)
        wait_until_whole(fs)
    fs.spate("rm", "spate:/once")  # a server is going to be emptied
    fsck_compares_the_copies(fs, "spate:/twice/below/file")
    fs.spate("policy", "set", "spate:/twice", "replicas=default")
    check(json.loads(fs.spate("policy", "--json", "get", "spate:/twice"))[0]["default"], "the default again")
    fs.fsck()


if __name__ == "__main__":
    for story in (a_directory_says_how_many_copies, each_server_may_be_lost):
        with Cluster(io=3) as cluster:
            story(cluster)
