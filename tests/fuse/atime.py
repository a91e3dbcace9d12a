# SPDX-License-Identifier: Apache-2.0
"""atime.py FOLDER META SERVER: reads files of FOLDER, closes them, and sets their atime. META, SERVER: processes of the meta server and of the mount."""
import os
import signal
import sys
import threading
import time

folder, meta, server = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CHOSEN = 5


def read_files(name, count):
    """Opens that have read, and others by which the times can be set."""
    paths = [f"{folder}/{name}{i}" for i in range(count)]
    for path in paths:
        with open(path, "w") as file:
            file.write("text")
    readers = [os.open(path, os.O_RDONLY) for path in paths]
    setters = [os.open(path, os.O_WRONLY) for path in paths]
    for reader in readers:
        got = os.read(reader, 10)
        assert got == b"text", f"a file has {got!r}"
    return readers, setters


def check(setters, when):
    wrong = [i for i, fd in enumerate(setters) if os.fstat(fd).st_atime != CHOSEN]
    assert not wrong, f"{when}: another atime than that which was set: files {wrong}"


def settle():
    time.sleep(0.5)  # a close may come after the call that it must not come after: nothing tells when it would have come


def close_all(descriptors):
    for fd in descriptors:
        os.close(fd)


readers, setters = read_files("open", 3)
for fd in setters:
    os.utime(fd, (CHOSEN, CHOSEN))
check(setters, "while it is open")
close_all(readers)
settle()
check(setters, "closed afterwards")
close_all(setters)

readers, setters = read_files("closed", 20)
for reader, setter in zip(readers, setters):
    os.close(reader)
    os.utime(setter, (CHOSEN, CHOSEN))
settle()
check(setters, "closed before")
close_all(setters)

readers, setters = read_files("killed", 20)
os.kill(meta, signal.SIGSTOP)
try:
    close_all(readers)
    settle()
    os.kill(server, signal.SIGKILL)
    last = threading.Thread(target=os.utime, args=(setters[-1], (CHOSEN, CHOSEN)))
    last.start()
    settle()
finally:
    os.kill(meta, signal.SIGCONT)
last.join()
settle()
check(setters[-1:], "closed before a kill")
close_all(setters)
