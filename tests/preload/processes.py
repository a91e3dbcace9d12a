#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Descriptors of files in Spate through fork, exec, vfork, posix_spawn, threads and sockets. Run by `spate run` on /spate
(processes.sh)."""
import array
import errno
import fcntl
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
from lib import child_status, raises, run_tests, writer  # noqa: E402

D = "/spate/p"
write = writer(D)


def test_fork_shares_the_offset():
    fd = os.open(write("f", b"0123456789" * 10), os.O_RDWR)
    os.lseek(fd, 10, os.SEEK_SET)
    child = os.fork()
    if child == 0:
        os._exit(0 if os.read(fd, 5) == b"01234" else 1)
    assert (got := child_status(child)) == 0, got
    assert (got := os.lseek(fd, 0, os.SEEK_CUR)) == 15, got
    copy = os.dup(fd)
    assert (got := os.read(copy, 3)) == b"567", got
    assert (got := os.lseek(fd, 0, os.SEEK_CUR)) == 18, got
    os.close(fd)
    assert (got := os.read(copy, 2)) == b"89", got
    os.close(copy)
    raises(errno.EBADF, os.read, copy, 1)


def test_what_a_closed_file_leaves_is_nobody_elses():
    """The memory of a closed file serves the next open file, but not while another process still has it."""
    paths = [write(f"left{n}", f"{n}-0123456789".encode()) for n in range(4)]
    for path, n in list(zip(paths, range(4))) * 3:
        lowest = os.dup(0)
        os.close(lowest)
        fd = os.open(path, os.O_RDWR | (os.O_APPEND if n == 2 else 0))
        assert fd == lowest, fd
        assert (got := os.lseek(fd, 0, os.SEEK_CUR)) == 0, got
        assert (got := os.read(fd, 4)) == f"{n}-01".encode(), got
        assert (got := bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND)) == (n == 2), got
        assert (got := os.readlink(f"/proc/self/fd/{fd}")) == path, got
        os.close(fd)
    fd = os.open(paths[0], os.O_RDONLY)
    os.read(fd, 5)
    go, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go, 1)
        os._exit(0 if os.read(fd, 20) == b"3456789" and os.fstat(fd).st_size == 12 else 1)
    os.close(fd)
    others = [os.open(path, os.O_RDONLY) for path in paths[1:] * 4]
    for other in others: os.read(other, 2)
    os.write(told, b"x")
    assert (got := child_status(child)) == 0, got
    for other in others + [go, told]: os.close(other)
    # The same for a directory, which is never left with the broker.
    os.mkdir(f"{D}/left")
    fd = os.open(f"{D}/left", os.O_RDONLY)
    go, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go, 1)
        os._exit(0 if os.listdir(fd) == [] and os.readlink(f"/proc/self/fd/{fd}") == f"{D}/left" else 1)
    os.close(fd)
    others = [os.open(D, os.O_RDONLY) for _ in range(9)]
    os.write(told, b"x")
    assert (got := child_status(child)) == 0, got
    for other in others + [go, told]: os.close(other)
    # Another process also knows a file for which a lock was requested.
    fd = os.open(paths[0], os.O_RDWR)
    fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
    os.close(fd)
    fd = os.open(paths[1], os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


def test_no_number_is_left():
    path = write("many", b"x")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
    fds = []
    try:
        raises(errno.EMFILE, lambda: [fds.append(os.open(path, os.O_RDONLY)) for _ in range(64)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in fds: os.close(fd)
    assert (got := len(fds)) > 30, got
    assert (got := open(path).read()) == "x", got


def test_exec_keeps_files_open_and_cloexec_does_not():
    path = write("e", b"abcdef\n")
    fd = os.open(path, os.O_RDWR)
    os.read(fd, 2)
    os.set_inheritable(fd, True)
    hidden = os.open(path, os.O_RDONLY)
    script = f"import os\nassert os.read({fd}, 2) == b'cd'\nos.write({fd}, b'XY')\ntry:\n  os.fstat({hidden})\nexcept OSError: pass\nelse: raise SystemExit('open')\n"
    subprocess.run([sys.executable, "-c", script], check=True, close_fds=False)
    assert (got := os.lseek(fd, 0, os.SEEK_CUR)) == 6, got
    assert (got := open(path, "rb").read()) == b"abcdXY\n", got
    os.close(fd)
    os.close(hidden)


def test_many_processes_append_to_one_description():
    with open(f"{D}/log", "w") as log:
        children = [subprocess.Popen(["sh", "-c", f"for i in 1 2 3 4 5; do echo {n}$i; done"], stdout=log) for n in range(6)]
        assert not any(got := [child.wait() for child in children]), got
    assert (got := sorted(open(f"{D}/log").read().split())) == sorted(f"{n}{i}" for n in range(6) for i in range(1, 6)), got


def test_spawn_with_redirections_and_programs_in_spate():
    path = write("script", b"#!/bin/sh\necho \"$0 $1\"\n")
    raises(errno.EACCES, os.posix_spawn, path, [path], os.environ)
    os.chmod(path, 0o755)
    out = f"{D}/out"
    actions = [(os.POSIX_SPAWN_OPEN, 1, out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)]
    child = os.posix_spawn("/bin/sh", ["sh", "-c", f"{path} one; {path} two"], os.environ, file_actions=actions)
    assert (got := child_status(child)) == 0, got
    assert (got := open(out).read()) == f"{path} one\n{path} two\n", got
    assert (got := subprocess.check_output([path, "x"])) == f"{path} x\n".encode(), got
    shutil.copy("/bin/true", f"{D}/true")
    assert (got := subprocess.run([f"{D}/true"]).returncode) == 0, got
    child = os.posix_spawn(f"{D}/true", ["true"], os.environ)
    assert (got := child_status(child)) == 0, got
    raises(errno.ENOENT, os.posix_spawn, f"{D}/none", ["none"], os.environ)
    assert (got := open(out).read()).startswith(path), got  # the parent goes on


def test_interpreters_in_spate():
    """A script's interpreter lies in Spate as well, as in a virtual environment of python, and may itself be a script."""
    shell = f"{D}/shell"
    shutil.copy("/bin/sh", shell)
    path = write("inside", f"#!{shell} -e\necho \"$0 $1\"\n".encode())
    os.chmod(path, 0o755)
    low = [os.open(path, os.O_RDONLY) for _ in range(4)]  # numbers that have another meaning in a child of vfork
    for start in (subprocess.check_output, lambda words: subprocess.check_output(["sh", "-c", 'exec "$@"', "sh", *words])):
        assert (got := start([path, "x"])) == f"{path} x\n".encode(), got
    for n in range(8):
        path = write(f"inside{n}", f"#!{path} {n}\n".encode())
        os.chmod(path, 0o755)
    assert (got := subprocess.check_output([f"{D}/inside3"])) == f"{D}/inside 0\n".encode(), got
    raises(errno.ELOOP, subprocess.run, [f"{D}/inside7"])
    path = write("lost", f"#!{D}/nothing\n".encode())
    os.chmod(path, 0o755)
    raises(errno.ENOENT, subprocess.run, [path])
    for number in low: os.close(number)


def test_what_is_no_program_leaves_no_descriptor():
    path = write("text", b"echo said\n")
    os.chmod(path, 0o755)
    before = os.listdir("/proc/self/fd")
    for _ in range(3): raises(errno.ENOEXEC, os.execv, path, [path])
    assert (got := len(os.listdir("/proc/self/fd"))) == len(before), got
    assert (got := subprocess.check_output(["bash", "-c", path])) == b"said\n", got


def test_threads():
    path = write("t", bytes(400000))
    fd = os.open(path, os.O_RDWR)
    def work(n):
        os.pwrite(fd, bytes([n]) * 50000, n * 50000)
        write(f"t{n}", bytes([n]) * 1000)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    data = open(path, "rb").read()
    assert data == b"".join(bytes([n]) * 50000 for n in range(8)), len(data)
    assert (got := {os.path.getsize(f"{D}/t{n}") for n in range(8)}) == {1000}, got
    os.close(fd)


def test_passing_over_a_socket():
    fd = os.open(write("s", b"passed"), os.O_RDONLY)
    a, b = socket.socketpair()
    child = os.fork()
    if child == 0:
        os.close(fd)
        message, ancillary, _, _ = b.recvmsg(1, socket.CMSG_LEN(4))
        got = array.array("i")
        got.frombytes(ancillary[0][2])
        os._exit(0 if os.read(got[0], 10) == b"passed" else 1)
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    assert (got := child_status(child)) == 0, got
    assert (got := os.read(fd, 1)) == b"", got  # the offset is shared
    os.close(fd)


def test_closing_everything_leaves_the_client_at_work():
    path = write("c", b"data")
    fd = os.open(path, os.O_RDONLY)
    child = os.fork()
    if child == 0:
        os.stat(path)
        os.closerange(3, 5000)
        try:
            os.read(fd, 1)
            os._exit(1)
        except OSError:
            pass
        with open(path, "rb") as file:
            os._exit(0 if file.read() == b"data" else 2)
    assert (got := child_status(child)) == 0, got
    assert (got := os.read(fd, 4)) == b"data", got
    os.close(fd)


def test_locks_hold_between_processes():
    path = write("lock", b"0123456789")
    one = open(path, "r+b")
    fcntl.lockf(one, fcntl.LOCK_EX, 4, 0)
    script = f"""
import fcntl, sys, time
two = open({path!r}, "r+b")
fcntl.lockf(two, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 4)
try:
    fcntl.lockf(two, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0)
except BlockingIOError:
    print("held", flush=True)
fcntl.lockf(two, fcntl.LOCK_EX, 4, 0)
print("got", flush=True)
fcntl.flock(two, fcntl.LOCK_EX)
print("both", flush=True)
sys.stdin.readline()
"""
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert (got := other.stdout.readline()) == "held\n", got
    open(path, "rb").close()  # by POSIX, that releases the lock
    assert (got := other.stdout.readline()) == "got\n", got
    raises(errno.EAGAIN, fcntl.lockf, one, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 1)
    assert (got := other.stdout.readline()) == "both\n", got  # or else the next one would get it first
    # A signal ends a wait.
    def interrupt(*_): raise InterruptedError
    signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(1)
    try:
        fcntl.flock(one, fcntl.LOCK_EX)
    except InterruptedError:
        pass
    else:
        raise AssertionError("not interrupted")
    other.communicate("end\n")
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    one.close()


def test_directories_can_be_locked():
    os.mkdir(f"{D}/locked")
    one = os.open(f"{D}/locked", os.O_RDONLY)
    script = f"""
import fcntl, os
two = os.open({D + "/locked"!r}, os.O_RDONLY)
for how in (fcntl.flock, fcntl.lockf):
    try: how(two, fcntl.LOCK_SH | fcntl.LOCK_NB); print("free")
    except BlockingIOError: print("held")
"""
    seen = lambda: subprocess.check_output([sys.executable, "-c", script], text=True).split()
    fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert seen() == ["held", "free"], seen()
    raises(errno.EBADF, fcntl.lockf, one, fcntl.LOCK_EX)  # a directory cannot be opened for writing
    fcntl.lockf(one, fcntl.LOCK_SH)
    os.close(one)
    assert seen() == ["free", "free"], seen()
    place = os.open(f"{D}/locked", os.O_PATH)
    raises(errno.EBADF, fcntl.flock, place, fcntl.LOCK_SH)
    os.close(place)
    os.rmdir(f"{D}/locked")


def test_signals_do_not_harm():
    hits = []
    path = write("sig", b"0" * 100000)
    signal.signal(signal.SIGALRM, lambda *_: hits.append(os.stat(path).st_size))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for _ in range(200): assert (got := len(open(path, "rb").read())) == 100000, got
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert hits, hits
    assert (got := set(hits)) == {100000}, got


def test_a_signal_ends_a_wait_by_select():
    """A handler writes to a pipe, which is how cmake learns that a child has ended. A file of Spate is open but is not
    waited for."""
    with open(write("select", b"x"), "rb"):
        out, into = os.pipe()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        os.set_blocking(into, False)
        before = signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        child = subprocess.Popen(["sh", "-c", "sleep 0.3"])  # it ends while select() waits
        assert select.select([out], [], [], 60)[0] == [out], "the handler never ran"
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child.wait()
        os.close(out), os.close(into)


def test_a_child_of_fork_after_a_spawn():
    """The process's last action before the fork was a spawn, whose child shared its memory. This child does not share
    it."""
    fd = os.open(write("after", b"0123456789"), os.O_RDONLY)
    subprocess.check_call(["/bin/true"])
    child = os.fork()
    if child == 0:
        os._exit(0 if os.pread(fd, 100, 0) == b"0123456789" else 1)
    assert (got := child_status(child)) == 0, got
    os.close(fd)


def test_a_temporary_file_goes_on_in_other_processes():
    """With O_TMPFILE the file has the mode of the call, and a child that opens it again gets the same file."""
    os.umask(0o022)
    fd = os.open(D, os.O_TMPFILE | os.O_RDWR, 0o666)
    assert (got := os.fstat(fd).st_mode & 0o7777) == 0o644, got
    os.close(fd)
    with tempfile.TemporaryFile(dir=D) as file:
        assert (got := os.fstat(file.fileno()).st_mode & 0o7777) == 0o600, got
        subprocess.check_call(["/bin/echo", "from exec"], stdout=file)
        child = os.fork()
        if child == 0:
            os._exit(0 if os.pread(file.fileno(), 100, 0) == b"from exec\n" and os.write(file.fileno(), b"from fork") == 9 else 1)
        assert (got := child_status(child)) == 0, got
        file.seek(0)
        assert (got := file.read()) == b"from exec\nfrom fork", got


run_tests(globals(), D)
