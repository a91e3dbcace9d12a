#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The server process of a mount is killed when it has queued a change and not answered the call. The kernel repeats the call, and the change is made once.
# killed_before_answer.sh LIBRARY
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
export SPATE_TEST_KILL=$dir/kill
mounts+=("$dir/a")
LD_PRELOAD=$1 "$spate" mount -p "$dir/a" -o nogather
mount_at b
timeout 120 python3 - "$spate" "$dir" << 'END' || { tail -30 "$dir/fs/log/mount.log"; exit 1; }
import os, subprocess, sys, time
spate, root = sys.argv[1:]


def status(name):
    text = subprocess.run([spate, "mount", "--status", f"{root}/a"], check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in text.splitlines() if " " in line).get(name)


os.mkdir(f"{root}/a/d")
folder = os.open(f"{root}/a/d", os.O_RDONLY)
wanted = []
before = int(status("queued_changes"))
while int(status("queued_changes")) == before:
    wanted.append(f"first{len(wanted)}")
    os.mkdir(wanted[-1], dir_fd=folder)
    time.sleep(0.02)  # until handles are there


def create(name):
    fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640, dir_fd=folder)
    assert os.write(fd, b"data") == 4
    os.close(fd)


def killed_during(call, name, text=""):
    server = status("server")
    with open(f"{root}/kill.new", "w") as file:
        file.write(text)
    os.rename(f"{root}/kill.new", f"{root}/kill")
    call(name)
    assert not os.path.exists(f"{root}/kill"), f"{name}: the process was not killed"
    assert status("server") != server, f"{name}: the process was not killed"


for number, make in enumerate((create, lambda name: os.mkdir(name, dir_fd=folder), lambda name: os.symlink("to", name, dir_fd=folder))):
    wanted.append(f"x{number}")
    killed_during(make, wanted[-1])
os.mkdir("empty", dir_fd=folder)
killed_during(lambda name: os.rmdir(name, dir_fd=folder), "empty", "answer without content")
for path in f"{root}/a/d", f"{root}/b/d":
    assert sorted(os.listdir(path)) == sorted(wanted), os.listdir(path)
    with open(f"{path}/x0", "rb") as file:
        assert file.read() == b"data", f"{path}/x0 has other data"
    assert os.path.isdir(f"{path}/x1") and os.readlink(f"{path}/x2") == "to", path
assert os.stat(f"{root}/b/d").st_nlink == 2 + len(wanted) - 2, os.stat(f"{root}/b/d")
assert status("queued_changes_lost") == "0", status("queued_changes_lost")
END
equal "$(status a crashes)" 4
"$spate" fsck > /dev/null
