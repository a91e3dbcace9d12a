#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files and directories in one process: names, copies, mmap, poll, the working directory. Run by `spate run` on /spate
(files.sh)."""
import ctypes
import errno
import fcntl
import glob
import mmap
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib import child_status, raises, run_tests, writer  # noqa: E402

D = "/spate/p"
write = writer(D)


def test_flags_poll_and_what_files_are_not():
    path = write("g", b"12")
    fd = os.open(path, os.O_RDWR)
    assert (got := fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE) == os.O_RDWR, got
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    os.write(fd, b"34")
    assert (got := open(path, "rb").read()) == b"1234", got
    assert not os.isatty(fd), "it is a terminal"
    assert (got := select.select([fd], [fd], [], 0)) == ([fd], [fd], []), got
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert (got := poll.poll(0)) == [(fd, select.POLLIN)], got
    raises(errno.EPERM, select.epoll().register, fd)
    readonly = os.open(path, os.O_RDONLY)
    raises(errno.EBADF, os.write, readonly, b"x")
    raises(errno.EISDIR, os.read, os.open(D, os.O_RDONLY), 1)
    raises(errno.ENOTDIR, os.open, path + "/x", os.O_RDONLY)
    raises(errno.EEXIST, os.open, path, os.O_CREAT | os.O_EXCL)
    raises(errno.EXDEV, os.rename, path, "/tmp/none")
    assert (got := os.readlink(f"/proc/self/fd/{fd}")) == path, got
    assert (got := os.read(os.open(f"/dev/fd/{readonly}", os.O_RDONLY), 4)) == b"1234", got


def test_mmap():
    path = write("m", bytes(range(256)) * 64)
    with open(path, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        assert (got := shared[:256]) == bytes(range(256)), got
        assert (got := len(shared)) == 16384, got
        private = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        private[0] = 99
        assert (got := file.read(1)) == b"\0", got
        raises(errno.ENODEV, mmap.mmap, file.fileno(), 0)
        # A map of a file that is shared and only readable cannot become writable later: no data would reach the file.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        for kind, wanted in ((mmap.MAP_SHARED, -1), (mmap.MAP_PRIVATE, 0)):
            memory = libc.mmap(None, 8192, mmap.PROT_READ, kind, file.fileno(), 4096)
            assert (got := ctypes.string_at(memory, 256)) == bytes(range(256)), got
            assert (got := libc.mprotect(ctypes.c_void_p(memory), ctypes.c_size_t(8192), mmap.PROT_READ | mmap.PROT_WRITE)) == wanted, (got, ctypes.get_errno())
            assert wanted == 0 or ctypes.get_errno() == errno.EACCES, ctypes.get_errno()


def test_copying():
    data = os.urandom(2500000)
    source = write("from", data)
    shutil.copyfile(source, f"{D}/to")
    shutil.copyfile(source, f"{D}/to")
    assert (got := open(f"{D}/to", "rb").read()) == data, len(got)
    local = tempfile.NamedTemporaryFile()
    shutil.copyfile(source, local.name)
    assert (got := open(local.name, "rb").read()) == data, len(got)
    read_end, write_end = os.pipe()
    with open(source, "rb") as file:
        assert 0 < (got := os.sendfile(write_end, file.fileno(), 10, 5000)) <= 5000, got
        assert (got := os.read(read_end, 5000)) == data[10:5010], got
    fd = os.open(f"{D}/range", os.O_RDWR | os.O_CREAT)
    with open(source, "rb") as file:
        assert (got := os.copy_file_range(file.fileno(), fd, 1000, 50, 7)) == 1000, got
    assert (got := os.pread(fd, 2000, 0)) == bytes(7) + data[50:1050], got
    os.posix_fallocate(fd, 0, 5000)
    assert (got := os.fstat(fd).st_size) == 5000, got
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
    assert (got := os.preadv(fd, [bytearray(3), bytearray(4)], 0)) == 7, got
    assert (got := os.pwritev(fd, [b"ab", b"cd"], 4998)) == 4, got
    assert (got := os.fstat(fd).st_size) == 5002, got


def test_a_directory_that_takes_several_reads():
    names = sorted(f"{i:02}" + "n" * 200 for i in range(30))
    os.makedirs(f"{D}/long")
    for name in names: os.close(os.open(f"{D}/long/{name}", os.O_CREAT | os.O_WRONLY))
    fd = os.open(f"{D}/long", os.O_RDONLY)
    libc, room, got = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(700), []
    while (size := libc.getdents64(fd, room, ctypes.c_size_t(700))) > 0:
        at = 0
        while at < size:
            length = struct.unpack_from("H", room.raw, at + 16)[0]
            got.append(room.raw[at + 19:at + length].split(b"\0")[0].decode())
            at += length
    assert size == 0 and sorted(got) == [".", ".."] + names, len(got)
    assert (got := libc.getdents64(os.open(f"{D}/long", os.O_RDONLY), room, ctypes.c_size_t(20))) == -1, got
    assert (got := ctypes.get_errno()) == errno.EINVAL, got
    os.close(fd)
    shutil.rmtree(f"{D}/long")


def test_the_name_space():
    os.makedirs(f"{D}/x/y")
    names = [f"name{i:04}" for i in range(300)]
    for name in names: write(f"x/{name}", b"")
    assert (got := sorted(os.listdir(f"{D}/x"))) == names + ["y"], got
    directory = os.open(f"{D}/x", os.O_RDONLY)
    assert (got := sorted(os.listdir(directory))) == names + ["y"], got
    assert (got := len(glob.glob(f"{D}/x/name00*"))) == 100, got
    assert (got := len(list(os.walk(f"{D}/x")))) == 2, got
    os.mkdir("new", dir_fd=directory)
    os.rename("new", "newer", src_dir_fd=directory, dst_dir_fd=directory)
    assert (got := os.stat("newer", dir_fd=directory).st_ino) == os.stat(f"{D}/x/newer").st_ino, got
    os.fchdir(directory)
    assert (got := os.getcwd()) == f"{D}/x", got
    assert os.path.exists("name0001"), "it is not there"
    assert (got := subprocess.check_output(["/bin/pwd"])) == f"{D}/x\n".encode(), got
    os.chdir("/")
    os.setxattr(f"{D}/x/name0001", "user.a", b"value")
    assert (got := os.getxattr(f"{D}/x/name0001", "user.a")) == b"value", got
    assert "user.a" in (got := os.listxattr(f"{D}/x/name0001")), got
    os.removexattr(f"{D}/x/name0001", "user.a")
    raises(errno.ENODATA, os.getxattr, f"{D}/x/name0001", "user.a")
    with tempfile.NamedTemporaryFile(dir=D) as file:
        file.write(b"q")
        file.flush()
        assert (got := os.path.getsize(file.name)) == 1, got
    descriptor, name = tempfile.mkstemp(dir=D)
    os.unlink(name)
    os.write(descriptor, b"still there")
    assert (got := os.pread(descriptor, 20, 0)) == b"still there", got
    assert (got := os.fstat(descriptor).st_nlink) == 0, got
    shutil.rmtree(f"{D}/x")
    assert not os.path.exists(f"{D}/x"), "it is still there"
    assert (got := os.statvfs(D).f_blocks) > 0, got


def test_paths_from_directories_above_lead_in():
    write("above", b"12345")
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    spate = os.open("spate", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)  # as rsync walks
    assert (got := os.stat("p/above", dir_fd=spate).st_size) == 5, got
    assert (got := os.stat("./spate/p/above", dir_fd=root).st_size) == 5, got
    raises(errno.ENOENT, lambda: os.stat("spatex", dir_fd=root))
    os.chdir("/")
    assert (got := os.path.getsize("spate/p/above")) == 5, got
    assert (got := os.listdir("spate")) == os.listdir("/spate"), got
    raises(errno.ENOENT, os.stat, "tmp/spate/p")
    os.rename("spate/p/above", "/spate/p/below")
    os.chdir("spate/p")
    assert (got := os.getcwd()) == D, got
    assert (got := os.path.getsize("below")) == 5, got
    os.chdir("/tmp")
    raises(errno.ENOENT, os.stat, "spate/p/below")
    for fd in (root, spate): os.close(fd)


def make_in(place):
    """Creates files in the working directory, which is `place` at this point: by a program, by a child of fork, by this
    process."""
    subprocess.check_call(["touch", "by-exec"])
    child = os.fork()
    if child == 0:
        os.close(os.open("by-fork", os.O_CREAT | os.O_WRONLY))
        os._exit(0)
    assert (got := child_status(child)) == 0, got
    os.close(os.open("by-itself", os.O_CREAT | os.O_WRONLY))
    assert (got := sorted(os.listdir(place))) == ["by-exec", "by-fork", "by-itself"], got


def test_the_working_directory_is_an_object():
    """The directory may be renamed, and its name may be given to another directory."""
    before = os.getcwd()
    for enters_by_descriptor in (False, True):
        os.mkdir(f"{D}/old")
        opened = os.open(f"{D}/old", os.O_RDONLY)
        if not enters_by_descriptor: os.chdir(f"{D}/old")
        os.rename(f"{D}/old", f"{D}/new")
        if enters_by_descriptor: os.fchdir(opened)  # the directory that was opened has no name
        os.mkdir(f"{D}/old")
        make_in(f"{D}/new")
        assert (got := os.listdir(f"{D}/old")) == [], got
        os.chdir(before)
        os.close(opened)
        shutil.rmtree(f"{D}/new")
        os.rmdir(f"{D}/old")


run_tests(globals(), D)
