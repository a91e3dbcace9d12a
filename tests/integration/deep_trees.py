#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trees that are deeper than a path can be long, as any user can make them: commands that walk trees need no more stack
for them. The commands run with a small stack here, so that a tree of some thousand levels shows what usually takes a
hundred thousand."""
import json
import os
import resource
import subprocess

from cluster import SPATE, Cluster, check

STACK = 512 << 10  # slightly more than any command needs
STEP = 300  # levels that one path covers
STEPS = 10
DEPTH = STEP * STEPS + STEPS - 1  # below the uppermost directory
BELOW = "/".join("d" * STEP)


def limit():
    resource.setrlimit(resource.RLIMIT_STACK, (STACK, STACK))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a copy out holds the folders open that it is in


def with_little_stack(fs, *args, **env):
    done = subprocess.run([SPATE, *args], env=dict(fs.env, **env), timeout=120, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit)
    done.stderr = done.stderr.decode(errors="replace")
    check(done.returncode >= 0, "spate %s died of signal %d" % (" ".join(args), -done.returncode))
    return done


def make_deep(fs, bottom):
    """Makes spate:/deep with STEP * STEPS levels. `bottom` lies in the lowest one."""
    fs.spate("mkdir", "-p", "spate:/deep/" + BELOW)
    bottom("spate:/deep/" + BELOW)
    for _ in range(STEPS - 1):
        fs.spate("mkdir", "-p", "spate:/upper/" + BELOW)
        fs.spate("mv", "spate:/deep", "spate:/upper/" + BELOW + "/d")
        fs.spate("mv", "spate:/upper", "spate:/deep")


def is_looked_at_and_removed(fs):
    make_deep(fs, lambda path: fs.spate("put", path + "/file", input=b"x"))
    done = with_little_stack(fs, "du", "-s", "--json", "spate:/deep")
    check(done.returncode == 0, "du: exit %d, %s" % (done.returncode, done.stderr))
    told = json.loads(done.stdout)[0]
    check(told["objects"] == DEPTH + 2 and told["size"] == 1, "du: %s" % told)
    done = with_little_stack(fs, "find", "spate:/deep", "-type", "f")
    check(done.returncode == 0 and done.stdout.decode() == "spate:/deep/" + "d/" * DEPTH + "file\n", "find: exit %d, %s" % (done.returncode, done.stderr))
    is_drawn(fs)
    is_copied(fs, told)
    is_copied_out_and_in(fs)
    done = with_little_stack(fs, "chmod", "-R", "700", "spate:/deep")
    check(done.returncode == 0, "chmod -R: exit %d, %s" % (done.returncode, done.stderr))
    done = with_little_stack(fs, "rm", "-r", "spate:/deep")
    check(done.returncode == 0 and fs.spate("ls", "spate:/") == b"", "rm -r: exit %d, %s" % (done.returncode, done.stderr))


def is_drawn(fs):
    done = with_little_stack(fs, "tree", "spate:/deep")
    lines = done.stdout.decode().splitlines()
    check(done.returncode == 0 and lines[-1] == "%d entries" % (DEPTH + 1), "tree: exit %d, %s" % (done.returncode, done.stderr))
    check(lines[-3] == "    " * DEPTH + "└── file", "tree draws another last line: " + lines[-3][-40:])
    # Nested values are for readers that have a stack for each level.
    done = with_little_stack(fs, "tree", "--json", "spate:/deep")
    check(done.returncode == 1 and b"find --json" in done.stdout + done.stderr.encode(), "tree --json: exit %d, %s" % (done.returncode, done.stderr))


def is_copied(fs, told):
    done = with_little_stack(fs, "cp", "-r", "spate:/deep", "spate:/copy")
    check(done.returncode == 0, "cp -r: exit %d, %s" % (done.returncode, done.stderr))
    copy = json.loads(with_little_stack(fs, "du", "-s", "--json", "spate:/copy").stdout)[0]
    check((copy["objects"], copy["size"]) == (told["objects"], told["size"]), "the copy is another tree: %s" % copy)
    done = with_little_stack(fs, "rm", "-r", "spate:/copy")
    check(done.returncode == 0, "rm -r: exit %d, %s" % (done.returncode, done.stderr))


def is_copied_out_and_in(fs):
    """A local path has an end, and so has what a copy in reaches. It says so and copies the rest."""
    local = fs.root + "/out"
    done = with_little_stack(fs, "cp", "-r", "spate:/deep", local)
    check(done.returncode == 0, "cp -r out: exit %d, %s" % (done.returncode, done.stderr))
    check(depth_of(local) == DEPTH, "the copy out has %d levels" % depth_of(local))
    reached = (os.pathconf("/", "PC_PATH_MAX") - 1 - len(local)) // len("/d")
    done = with_little_stack(fs, "cp", "-r", local, "spate:/in")
    check(done.returncode == 1 and "too long" in done.stderr, "cp -r in: exit %d, %s" % (done.returncode, done.stderr[-300:]))
    copy = json.loads(with_little_stack(fs, "du", "-s", "--json", "spate:/in").stdout)[0]
    check(copy["objects"] == reached + 1, "%d levels can be reached, and %d objects were copied" % (reached, copy["objects"]))
    subprocess.run(["rm", "-r", local], check=True)
    done = with_little_stack(fs, "rm", "-r", "spate:/in")
    check(done.returncode == 0, "rm -r: exit %d, %s" % (done.returncode, done.stderr))


def depth_of(local):
    """The levels below a local directory whose lowest one has a file."""
    depth, folder = 0, os.open(local, os.O_RDONLY)
    while os.listdir(folder) == ["d"]:
        below = os.open("d", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        os.close(folder)
        depth, folder = depth + 1, below
    check(os.listdir(folder) == ["file"], "the lowest level has " + str(os.listdir(folder)))
    os.close(folder)
    return depth


def stays_after_an_error(fs):
    """The user may not read the lowest folder: everything above it stays as it is, and the message tells the reason."""
    def closed(path):
        fs.spate("mkdir", path + "/closed")
        fs.spate("chmod", "0", path + "/closed")
    make_deep(fs, closed)
    uid = os.getuid() or 65504  # root cannot have a user key
    key = fs.root + "/user.key"
    fs.spate("key", "issue", "--uid", str(uid), "--gid", str(uid), "-o", key)
    done = with_little_stack(fs, "rm", "-r", "spate:/deep", SPATE_FS_CLIENT_KEY_FILE=key)
    check(done.returncode == 1 and "permission denied" in done.stderr, "rm -r: exit %d, %s" % (done.returncode, done.stderr))
    check(b"d" in fs.spate("ls", "spate:/deep"), "something is gone")


def main():
    with Cluster(io=1) as fs:
        fs.up()
        is_looked_at_and_removed(fs)
        stays_after_an_error(fs)
        fs.fsck()


main()
