# SPDX-License-Identifier: Apache-2.0
"""removed_open.py FOLDER OTHER SPATE: directories and files that are open are removed, here and by way of OTHER, another mount. fstat works on them as
on a local file system, also for the next processes of the mount."""
import os
import signal
import subprocess
import sys

folder, other, spate = sys.argv[1:4]
mount = os.path.dirname(folder)


def server():
    status = subprocess.run([spate, "mount", "--status", mount], check=True, capture_output=True, text=True).stdout
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("server ")))


def remove(name, root):
    os.rmdir(f"{root}/{name}-dir")
    os.unlink(f"{root}/{name}-file")


def facts(fd):
    found = os.fstat(fd)
    return found.st_ino, found.st_mode, found.st_uid, found.st_nlink


opened = {}
for name, root in ("here", folder), ("there", other), ("later", folder):
    os.mkdir(f"{folder}/{name}-dir", 0o750)
    with open(f"{folder}/{name}-file", "w", encoding="ascii") as file:
        file.write(name)
    for kind in "dir", "file":
        path = f"{folder}/{name}-{kind}"
        before = os.stat(path)
        fds = [os.open(path, os.O_RDONLY) for _ in range(2)]
        os.close(fds.pop())  # the other open stays
        opened[f"{name}-{kind}"] = fds[0], (before.st_ino, before.st_mode, before.st_uid, 0)
    if name != "later":
        remove(name, root)


def check(when, names):
    for name, (fd, expected) in opened.items():
        if not name.startswith(names):
            continue
        try:
            got = facts(fd)
        except OSError as error:
            sys.exit(f"{when}: fstat of {name}: {error}")
        assert got == expected, f"{when}: {name} has {got}, not {expected}"
        if name.endswith("file"):
            text = os.pread(fd, 10, 0).decode()
            assert f"{text}-file" == name, f"{when}: {name} has {text}"


check("before", ("here", "there"))
os.kill(server(), signal.SIGKILL)
check("killed", ("here", "there"))
remove("later", folder)
check("removed after a kill", ("here", "there", "later"))
subprocess.run([spate, "mount", "--upgrade", mount], check=True, stdout=subprocess.DEVNULL)
check("upgraded", ("here", "there", "later"))
os.kill(server(), signal.SIGKILL)
check("killed again", ("here", "there", "later"))
for fd, _ in opened.values():
    os.close(fd)
