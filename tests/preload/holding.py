#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How open files and locks behave when the process that made them forks, becomes another program, or ends.
Run by `spate run` on /spate (holding.sh)."""
import array
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from lib import child_status, raises, run_tests, writer  # noqa: E402

D = "/spate/h"
write = writer(D)


def sh(script, **more):
    return subprocess.check_output(["bash", "-euc", script], cwd="/", text=True, **more)


def python(script, *arguments, **more):
    return subprocess.Popen([sys.executable, "-c", "import fcntl, os, socket, sys, time\n" + script, *map(str, arguments)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)


def says(process, word):
    assert process.stdout.readline() == word + "\n", word


def end(process):
    process.communicate("end\n")
    assert (got := process.returncode) == 0, got


def until(condition):
    """Waits until the condition holds. It should take far less than half a minute."""
    end = time.monotonic() + 30
    while not condition():
        assert (got := time.monotonic()) < end, got
        time.sleep(0.05)


def lock_requests():
    """Returns how many lock requests the meta server has answered, including requests that had to wait."""
    told = subprocess.check_output([os.path.join(os.environ["SPATE_BIN"], "spate"), "stats", "1", "--prometheus"], text=True)
    line = next(line for line in told.splitlines() if line.startswith("spate_rpc_request_ns_count{") and 'op="lock"' in line)
    return int(line.split()[-1])


def is_free(path, how=fcntl.flock):
    """Returns whether another open file of another process gets the lock."""
    program = python(f"f = open(sys.argv[1], 'r+')\ntry: fcntl.{how.__name__}(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')\nexcept BlockingIOError: print('held')", path)
    return program.communicate()[0] == "free\n"


def is_locked_now(file):
    """Returns whether `file` gets its lock at once."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def becomes_free(path, how=fcntl.flock):
    """Waits until the lock is free. That comes long before the lease of a session ends."""
    until(lambda: is_free(path, how))


def test_a_file_without_a_name_lives_on_in_the_next_program():
    path = write("exec", b"one\ntwo\n")
    assert (got := sh(f"exec 3<{path}; rm {path}; exec sh -c 'read line <&3; exec cat <&3'")) == "two\n", got
    assert not os.path.exists(path), "it is still there"


def test_a_file_that_is_removed_between_two_programs_is_there_for_the_second():
    path = write("between", b"still")
    ready, go = os.pipe()
    wait, removed = os.pipe()
    script = f"exec <{path} bash -c 'echo ready >&{go}; read line <&{wait}; exec cat'"
    reader = subprocess.Popen(["bash", "-c", script], pass_fds=[go, wait], stdout=subprocess.PIPE)
    assert (got := os.read(ready, 6)) == b"ready\n", got  # the opener is another program by now, which has not touched the file
    os.unlink(path)
    os.write(removed, b"\n")
    assert (got := reader.communicate()[0]) == b"still", got
    for fd in (ready, go, wait, removed): os.close(fd)


def test_a_grandchild_reads_it_after_the_opener_has_exited():
    path = write("grand", b"inherited")
    go_read, go = os.pipe()
    result, result_write = os.pipe()
    child = os.fork()
    if child == 0:
        fd = os.open(path, os.O_RDONLY)
        if os.fork() == 0:
            os.read(go_read, 1)
            os.dup2(fd, 0)
            os.dup2(result_write, 1)
            os.execv("/bin/cat", ["cat"])
        os.unlink(path)
        sys.exit(0)
    assert (got := child_status(child)) == 0, got
    os.write(go, b"x")
    os.close(result_write)
    assert (got := os.read(result, 100)) == b"inherited", got
    for fd in (go_read, go, result): os.close(fd)


def test_a_spawned_program_keeps_what_the_spawner_opened_for_it():
    path = write("spawned", b"by spawn")
    read_end, write_end = os.pipe()
    actions = [(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, write_end, 1)]
    wait, removed = os.pipe()
    os.set_inheritable(wait, True)
    child = os.posix_spawn("/bin/bash", ["bash", "-c", f"echo up; read line <&{wait}; exec cat"], os.environ, file_actions=actions)
    assert (got := os.read(read_end, 3)) == b"up\n", got
    os.unlink(path)
    os.write(removed, b"\n")
    assert (got := child_status(child)) == 0, got
    assert (got := os.read(read_end, 100)) == b"by spawn", got
    for fd in (read_end, write_end, wait, removed): os.close(fd)


def test_a_file_on_its_way_through_a_socket_lives():
    path = write("passed", b"from nobody")
    here, there = socket.socketpair()
    sender = os.fork()
    if sender == 0:
        fd = os.open(path, os.O_RDONLY)
        here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        os.unlink(path)
        sys.exit(0)
    assert (got := child_status(sender)) == 0, got
    script = "s = socket.socket(fileno=int(sys.argv[1]))\n_, fds, _, _ = socket.recv_fds(s, 1, 1)\nprint(os.read(fds[0], 100).decode())"
    receiver = python(script, there.fileno(), pass_fds=[there.fileno()])
    assert (got := receiver.communicate()[0]) == "from nobody\n", got


def test_removed_files_end_with_their_last_broker():
    path = write("last", bytes(1 << 20))
    before = os.statvfs(D).f_files - os.statvfs(D).f_ffree
    assert (got := sh(f"exec 3<{path}; rm {path}; exec sh -c 'exec wc -c <&3'")) == "1048576\n", got
    until(lambda: os.statvfs(D).f_files - os.statvfs(D).f_ffree < before)


def test_flock_is_for_whoever_has_the_descriptor():
    path = write("idiom")
    # A common idiom of shell scripts: the program `flock` locks a file that the shell has open, and ends.
    assert (got := sh(f"exec 9>{path}; flock 9; flock -n {path} true && echo free || echo held; exec 9>&-; flock -n {path} echo free")) == "held\nfree\n", got
    assert (got := sh(f"(flock -n 9; flock -n {path} true || echo held) 9>{path}; flock -n {path} echo free")) == "held\nfree\n", got


def test_flock_goes_on_over_exec():
    path = write("over")
    script = "f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); os.set_inheritable(f.fileno(), True)\nos.execv('/bin/sh', ['sh', '-c', 'echo locked; read x'])"
    broker = python(script, path)
    says(broker, "locked")
    assert not is_free(path), "a lock is gone"
    end(broker)
    becomes_free(path)


def test_flock_ends_with_a_descriptor_that_exec_closes():
    path = write("cloexec")
    broker = python("f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX)\nos.execv('/bin/sh', ['sh', '-c', 'echo locked; read x'])", path)
    says(broker, "locked")
    becomes_free(path)
    end(broker)


def test_flock_is_shared_by_fork_and_ends_with_the_last():
    path = write("forked")
    script = "f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('locked', flush=True)\nif os.fork() == 0: sys.stdin.readline(); os._exit(0)"
    parent = python(script, path)
    says(parent, "locked")
    assert (got := parent.wait()) == 0, got
    assert not is_free(path), "a lock is gone"  # now the child has the lock, though it has done nothing with it
    parent.stdin.write("end\n")
    parent.stdin.close()
    becomes_free(path)


def test_either_of_them_may_unlock():
    path = write("either")
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        child = os.fork()
        if child == 0:
            fcntl.flock(file, fcntl.LOCK_UN)
            os._exit(0)
        assert (got := child_status(child)) == 0, got
        assert is_free(path), "a lock is still held"


def test_killing_the_last_broker_releases_everything():
    path, record = write("killed"), write("killed2")
    script = ("f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); g = open(sys.argv[2], 'r+'); fcntl.lockf(g, fcntl.LOCK_EX)\n"
              "print('locked', flush=True); sys.stdin.readline()")
    broker = python(script, path, record)
    says(broker, "locked")
    assert not is_free(path), "a lock is gone"
    assert not is_free(record, fcntl.lockf), "a lock is gone"
    broker.kill()
    becomes_free(path)
    becomes_free(record, fcntl.lockf)


def test_who_waits_for_a_lock_gets_it_when_the_broker_is_killed():
    path = write("waits")
    script = "f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('locked', flush=True); sys.stdin.readline()"
    broker = python(script, path)
    says(broker, "locked")
    before = lock_requests()
    killed = python(script, path)
    until(lambda: lock_requests() > before)
    killed.kill()
    killed.wait()
    waits = python(script, path)
    broker.kill()
    says(waits, "locked")  # not stuck behind the wait of a program that is gone
    end(waits)


def test_record_locks_go_on_over_exec_and_end_with_a_close():
    path = write("record", b"0123456789")
    again = "import fcntl, os, sys\nprint('locked', flush=True); sys.stdin.readline(); os.close(int(sys.argv[1])); print('closed', flush=True); sys.stdin.readline()"
    script = f"f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); os.set_inheritable(f.fileno(), True)\nos.execv(sys.executable, ['python3', '-c', {again!r}, str(f.fileno())])"
    broker = python(script, path)
    says(broker, "locked")
    assert not is_free(path, fcntl.lockf), "a lock is gone"
    broker.stdin.write("go\n")
    broker.stdin.flush()
    says(broker, "closed")
    assert is_free(path, fcntl.lockf), "a lock is still held"
    end(broker)


def test_record_locks_end_with_a_descriptor_that_exec_or_dup2_closes():
    path = write("record2", b"0123456789")
    broker = python("f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX)\nos.execv('/bin/sh', ['sh', '-c', 'echo locked; read x'])", path)
    says(broker, "locked")
    assert is_free(path, fcntl.lockf), "a lock is still held"
    end(broker)
    one = open(path, "r+")
    fcntl.lockf(one, fcntl.LOCK_EX)
    other = os.open(path, os.O_RDONLY)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, other)
    assert is_free(path, fcntl.lockf), "a lock is still held"
    os.close(null)
    os.close(other)
    one.close()


def test_record_locks_are_not_the_childs():
    path = write("parents", b"0123456789")
    file = open(path, "r+")
    fcntl.lockf(file, fcntl.LOCK_EX)
    child = os.fork()
    if child == 0:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os._exit(1)
        except BlockingIOError:
            file.close()
            sys.exit(0)
    assert (got := child_status(child)) == 0, got
    assert not is_free(path, fcntl.lockf), "a lock is gone"  # the child's close and exit released nothing
    file.close()
    assert is_free(path, fcntl.lockf), "a lock is still held"


def test_an_exit_has_released_when_it_is_seen():
    path = write("exit", b"0123456789")
    script = "f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB); os._exit(0)"
    for _ in range(10):
        program = python(script, path)
        assert (got := program.wait()) == 0, got


def test_locks_of_open_files():
    path = write("ofd", b"0123456789")
    import struct
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 5, 0)
    one, two = open(path, "r+"), open(path, "r+")
    set_lock, get_lock = 37, 36
    fcntl.fcntl(one, set_lock, lock)
    try:
        fcntl.fcntl(two, set_lock, lock)
        raise AssertionError("two have it")
    except BlockingIOError:
        pass
    found = struct.unpack("hhqqi4x", fcntl.fcntl(two, get_lock, lock))
    assert found[0] == fcntl.F_WRLCK and found[3] == 5 and found[4] == -1, found
    copy = os.dup(one.fileno())
    one.close()
    assert (got := struct.unpack("hhqqi4x", fcntl.fcntl(two, get_lock, lock))[0]) == fcntl.F_WRLCK, got
    os.close(copy)
    fcntl.fcntl(two, set_lock, lock)
    two.close()


def test_daemons_that_close_everything():
    path = write("daemon", b"0123456789")
    for close in ("import ctypes; ctypes.CDLL(None).close_range(3, 0xffffffff, 0)",
                  "for fd in range(3, os.sysconf('SC_OPEN_MAX')):\n  try: os.close(fd)\n  except OSError: pass"):
        script = f"f = open(sys.argv[1], 'r+'); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)\n{close}\nprint('closed', flush=True)\nsys.stdin.readline()\nos.execv('/bin/cat', ['cat', sys.argv[1]])"
        program = python(script, path)
        says(program, "closed")
        assert is_free(path), "a lock is still held"
        assert is_free(path, fcntl.lockf), "a lock is still held"
        program.stdin.write("go\n")
        program.stdin.flush()
        assert (got := program.communicate()[0]) == "0123456789", got
        assert (got := program.returncode) == 0, got


def test_locks_of_a_broker_that_was_killed_are_not_taken_for_held():
    path = write("orphaned")
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        folder = os.environ["SPATE_FS"].removesuffix("spate.toml")
        broker = subprocess.check_output(["pgrep", "-f", f"spate-broker {folder}"], text=True).split()
        assert (got := len(broker)) == 1, got
        os.kill(int(broker[0]), signal.SIGKILL)
        raises(errno.EIO, fcntl.flock, file, fcntl.LOCK_SH)
        fcntl.flock(file, fcntl.LOCK_UN)
        until(lambda: is_locked_now(file))  # the killed one's lock ends with its lease; this open file works as a new one
        assert not is_free(path), "a lock is gone"


def test_the_programs_children_are_its_own():
    path = write("children")
    deaths = []
    signal.signal(signal.SIGCHLD, lambda *_: deaths.append(1))
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # may have started the process that holds it
        time.sleep(0.1)  # a child of the program would have ended by now: nothing reports that there is none
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        os.waitpid(-1, os.WNOHANG)
        raise AssertionError("a child that the program has not made")
    except ChildProcessError:
        assert deaths == [], deaths


run_tests(globals(), D)
