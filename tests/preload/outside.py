#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that use files of Spate, and objects that are not Spate's: links that lead out, descriptors of the kernel's files, /proc.
Run by `spate run` on /spate (outside.sh)."""
import ctypes
import errno
import os
import subprocess
import sys

sys.dont_write_bytecode = True
from lib import child_status, raises, run_tests, writer  # noqa: E402

D = "/spate/o"
write = writer(D)
libc = ctypes.CDLL(None, use_errno=True)


def called(result):
    """Returns the result of a C function. Raises its errno as an exception."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def in_child(work):
    """Runs the function in a child. Returns its exit code, or 99 after an exception."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: B036
            print(error, file=sys.stderr, flush=True)
        os._exit(99)
    return child_status(child)


def test_a_link_that_leads_out_can_be_started():
    os.symlink("/bin/sh", f"{D}/sh")
    assert (got := subprocess.check_output([f"{D}/sh", "-c", "echo started"])) == b"started\n", got


def test_a_script_whose_interpreter_is_a_link_that_leads_out():
    os.symlink("/usr/bin/env", f"{D}/env")
    write("script", f"#!{D}/env sh\necho $0 $1\n".encode())
    os.chmod(f"{D}/script", 0o755)
    assert (got := subprocess.check_output([f"{D}/script", "word"])) == f"{D}/script word\n".encode(), got


def test_statfs_of_a_link_that_leads_out():
    os.symlink("/proc", f"{D}/proc")
    ours, kernels = os.statvfs(D), os.statvfs("/proc")
    seen = os.statvfs(f"{D}/proc")
    assert (got := (seen.f_bsize, seen.f_blocks, seen.f_fsid)) == (kernels.f_bsize, kernels.f_blocks, kernels.f_fsid), got
    assert (got := ours.f_blocks) > 0, got
    raises(errno.ENOENT, os.statvfs, f"{D}/none")


def test_programs_that_are_started_by_descriptor():
    with open(write("marked")):  # so a descriptor is marked
        true = os.open("/bin/true", os.O_RDONLY)
        assert (got := in_child(lambda: os.execve(true, ["true"], {}))) == 0, got
    elf = write("true", open("/bin/true", "rb").read())
    os.chmod(elf, 0o755)
    ours = os.open(elf, os.O_RDONLY)
    assert (got := in_child(lambda: os.execve(ours, ["true"], {}))) == 0, got
    os.chmod(elf, 0o644)
    raises(errno.EACCES, os.execve, ours, ["true"], {})
    os.close(ours)
    os.close(true)


def test_inotify_and_file_handles_of_the_kernels_files():
    watcher = called(libc.inotify_init())
    handle = (ctypes.c_uint * 40)(128)
    mount = ctypes.c_int()
    watch = lambda path: called(libc.inotify_add_watch(watcher, path.encode(), 2))  # noqa: E731
    to_handle = lambda at, path, flags: called(libc.name_to_handle_at(at, path.encode(), handle, ctypes.byref(mount), flags))  # noqa: E731
    os.symlink("/dev", f"{D}/dev")
    with open(write("watched")) as file, open("/dev/null") as null:
        for path in ("/dev", f"{D}/dev"):
            watch(path)
        raises(errno.EOPNOTSUPP, watch, file.name)
        raises(errno.ENOENT, watch, f"{D}/none")
        try:
            to_handle(null.fileno(), "", 0x1000)  # AT_EMPTY_PATH
        except OSError as error:  # the kernel's own answer if its file system has no handles
            assert (got := error.errno) == errno.EOPNOTSUPP, got
        raises(errno.EOPNOTSUPP, to_handle, file.fileno(), "", 0x1000)
        raises(errno.EBADF, to_handle, 1000, "x", 0)
    os.close(watcher)


def test_descriptors_of_other_processes_and_threads():
    with open(write("other", b"0123456789")) as file:
        number = file.fileno()
        read = "import os, sys; print(open(sys.argv[1]).read(), os.stat(sys.argv[1]).st_size)"
        for path in (f"/proc/{os.getpid()}/fd/{number}", f"/proc/self/task/{os.getpid()}/fd/{number}", f"/proc/thread-self/fd/{number}"):
            assert open(path).read() == "0123456789", path
            assert os.stat(path).st_size == 10, path
        path = f"/proc/{os.getpid()}/fd/{number}"
        for inherits in ([], [number]):
            told = subprocess.check_output([sys.executable, "-c", read, path], pass_fds=inherits, text=True)
            assert told == "0123456789 10\n", (told, inherits)
        with open(path) as again:  # a new open, as the kernel makes it
            assert (got := again.read(3)) == "012", got
            assert (got := file.read(1)) == "0", got
    raises(errno.ENOENT, open, path)


run_tests(globals(), D)
