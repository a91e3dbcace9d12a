# SPDX-License-Identifier: Apache-2.0
"""delegate.py SPATE A B FS: A is mounted with delegate, B without. FS is the folder of the file system."""
import os
import signal
import struct
import subprocess
import time

from delegate_lib import a, b, fresh, fs, has, make, meta, queued, requests, spate, standing_still, status


def seen():
    name, dots = fresh("seen")
    before = queued()
    for number in range(100):
        make(f"{a}/{name}/f{number}")
    assert queued() >= before + 200, f"{queued() - before} changes were queued"
    os.symlink("to", f"{a}/{name}/link")
    os.mkdir(f"{a}/{name}/sub")
    make(f"{a}/{name}/sub/x")
    os.utime(f"{a}/{name}/sub/x", ns=(10**9, 2 * 10**9))
    os.chmod(f"{a}/{name}/sub/x", 0o600)
    here = os.stat(f"{a}/{name}/sub/x")
    there = os.stat(f"{b}/{name}/sub/x")
    for what in "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_uid", "st_nlink":
        assert getattr(here, what) == getattr(there, what), f"{what}: {here} here, {there} there"
    assert os.readlink(f"{b}/{name}/link") == "to", "the link leads elsewhere"
    has(name, 102 + dots)
    make(f"{b}/{name}/theirs")
    make(f"{a}/{name}/ours")
    has(name, 104 + dots)
    try:
        os.mkdir(f"{a}/{name}/theirs")
        raise AssertionError("a name was made twice")
    except FileExistsError:
        pass


def written():
    name, dots = fresh("written")
    for number in range(30):
        with open(f"{a}/{name}/w{number}", "wb") as file:
            file.write(b"%d" % number * 1000)
        os.utime(f"{a}/{name}/w{number}", ns=(10**9, number * 10**9))
    for number in range(30):
        with open(f"{b}/{name}/w{number}", "rb") as file:
            got = file.read()
            assert got == b"%d" % number * 1000, f"file {number} has {len(got)} other bytes"
        assert os.stat(f"{b}/{name}/w{number}").st_mtime_ns == number * 10**9, number
    has(name, 30 + dots)


def access_list(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, rights, number) for tag, rights, number in entries)


def lists():
    """A list that says no more than a mode, as cp -a sets, is a chmod. One that says more is kept, and so is what is set after it."""
    name, _ = fresh("lists")
    none = 2**32 - 1
    path = f"{a}/{name}/f"
    make(path)
    before = queued()
    os.setxattr(path, "system.posix_acl_access", access_list((1, 6, none), (4, 4, none), (32, 0, none)))
    assert os.stat(path).st_mode & 0o777 == 0o640, oct(os.stat(path).st_mode)
    assert queued() > before, "the server was asked for a list that says no more than a mode"
    os.setxattr(path, "system.posix_acl_access", access_list((1, 6, none), (2, 7, 77), (4, 4, none), (16, 7, none), (32, 0, none)))
    assert os.stat(path).st_mode & 0o777 == 0o670, oct(os.stat(path).st_mode)
    os.setxattr(path, "system.posix_acl_access", access_list((1, 7, none), (4, 5, none), (32, 5, none)))
    os.mkdir(f"{a}/{name}/below")
    before = queued()
    os.removexattr(f"{a}/{name}/below", "system.posix_acl_default")
    assert queued() > before, "the server was asked to remove a list that is not there"
    for place in a, b:
        assert os.stat(f"{place}/{name}/f").st_mode & 0o777 == 0o755, oct(os.stat(f"{place}/{name}/f").st_mode)
        assert "system.posix_acl_access" not in os.listxattr(f"{place}/{name}/f"), "the longer list is still there"


def order():
    name, _ = fresh("order")
    make(f"{a}/{name}/new")
    os.rename(f"{a}/{name}/new", f"{a}/{name}.renamed")
    assert os.stat(f"{b}/{name}.renamed").st_size == 0, "the renamed file is not empty"
    name, _ = fresh("synced")
    fd = os.open(f"{a}/{name}/f", os.O_CREAT | os.O_WRONLY, 0o644)
    os.fsync(fd)
    assert int(status("queued_now")) == 0, "fsync does not wait for what is queued"
    os.close(fd)


def removed():
    name, dots = fresh("removed")
    for number in range(100):
        make(f"{a}/{name}/f{number}")
    os.mkdir(f"{a}/{name}/sub")
    os.symlink("to", f"{a}/{name}/sub/link")
    fd = os.open(f"{a}/{name}/f0", os.O_RDONLY)
    before = queued()
    for number in range(90):
        os.unlink(f"{a}/{name}/f{number}")
    os.unlink(f"{a}/{name}/sub/link")
    os.rmdir(f"{a}/{name}/sub")
    assert queued() >= before + 92, f"{queued() - before} removals were queued"
    assert os.fstat(fd).st_nlink == 0, "a removed file has a name"
    assert os.read(fd, 10) == b"", "an empty file has data"
    os.close(fd)
    make(f"{a}/{name}/f0")
    has(name, 11 + dots)


def reads_without_sending(path, new):
    """Whether a file is read while the creation of a new one is queued. A queue is also sent when it is a tenth of a second old."""
    before = status("queued_requests")
    make(new)
    with open(path, "rb") as file:
        assert file.read() == b"data", "the file has other data"
    return int(status("queued_now")) > 0 and status("queued_requests") == before


def opened():
    name, _ = fresh("opened")
    for number in range(50):
        with open(f"{a}/{name}/f{number}", "wb") as file:
            file.write(b"%d" % number * 100)
    folder = os.open(f"{a}/{name}", os.O_RDONLY)
    os.fsync(folder)
    before = queued()
    files = [os.open(f"{a}/{name}/f{number}", os.O_RDONLY) for number in range(50)]
    assert queued() >= before + 50, f"{queued() - before} opens were queued"
    for number in range(0, 50, 5):
        os.unlink(f"{a}/{name}/f{number}")
    os.kill(int(status("server")), signal.SIGKILL)
    for number in range(1, 50, 5):
        os.unlink(f"{b}/{name}/f{number}")
    for number, fd in enumerate(files):
        assert os.read(fd, 1000) == b"%d" % number * 100, f"file {number} has other data"
        os.close(fd)
    os.close(folder)
    name, _ = fresh("closed")
    with open(f"{a}/{name}/f", "wb") as file:
        file.write(b"data")
        os.fsync(file.fileno())
    assert any(reads_without_sending(f"{a}/{name}/f", f"{a}/{name}/new{number}") for number in range(200)), "a read sends the queue"
    before = queued()
    for _ in range(100):
        os.close(os.open(f"{a}/{name}/f", os.O_RDONLY))
    assert queued() >= before + 200, f"{queued() - before} opens and closes were queued"
    os.unlink(f"{b}/{name}/f")  # nothing keeps it
    assert not os.path.exists(f"{a}/{name}/f"), "it is still there"


def listed():
    name, _ = fresh("listed")
    sub = f"{a}/{name}/sub"
    os.mkdir(sub)
    names = [f"f{number}" for number in range(3000)]
    before = requests("readdir", "list_lease")
    for name in names[:100]:
        make(f"{sub}/{name}")
    assert sorted(os.listdir(sub)) == sorted(names[:100]), "the listing of a queue"
    for name in names[:10]:
        os.unlink(f"{sub}/{name}")
    assert sorted(os.listdir(sub)) == sorted(names[10:100]), "the listing after removals"
    assert requests("readdir", "list_lease") == before, "a listing asks the server"
    for name in names[:10] + names[100:]:
        make(f"{sub}/{name}")
    with os.scandir(sub) as entries:
        got = [next(entries).name for _ in range(100)]
        os.kill(int(status("server")), signal.SIGKILL)
        got += [entry.name for entry in entries]
    assert len(got) == len(names) and set(got) == set(names), f"{len(got)} entries of a listing that two processes answered"


def read_back():
    """The kernel does not keep the last page of a new file."""
    warm_up()
    name, _ = fresh("back")
    files = {f"{a}/{name}/f{number}": b"%d," % number * (300 * number + 1) for number in range(40)}
    for path, data in files.items():
        with open(path, "wb") as file:
            file.write(data)
    while int(status("queued_now")) > 0:
        time.sleep(0.05)  # the closes follow the data
    before = requests("open", "read", "close", "listxattr")
    for path, data in files.items():
        with open(path, "rb") as file:
            assert file.read() == data, f"{path} has other data"
        assert os.listxattr(path) == [], path
    after = requests("open", "read", "close", "listxattr")
    assert after == before, f"{after - before} requests to read back 40 files"
    assert 0 < int(status("kept_tails_bytes")) <= int(status("kept_tails_at_most_bytes")), status("kept_tails_bytes")
    changed = list(files)[3]
    with open(changed, "r+b") as file:
        assert os.pread(file.fileno(), 10, 0) == files[changed][:10], "before the change"
        file.seek(5)
        file.write(b"new")
        file.flush()
        with open(changed, "rb") as reader:
            assert reader.read()[:10] == files[changed][:5] + b"new" + files[changed][8:10], "during the change"
    os.truncate(list(files)[5], 7)
    os.truncate(list(files)[5], 20)
    with open(list(files)[5], "rb") as file:
        assert file.read() == files[list(files)[5]][:7] + bytes(13), "the truncated file"
    with open(list(files)[4].replace(a, b, 1), "wb") as file:
        file.write(b"of another mount")
    with open(list(files)[4], "rb") as file:
        assert file.read() == b"of another mount", "a change of another mount"


def with_full_queue(event, count=2000):
    """The meta server stands still while changes are queued and something happens."""
    name, dots = fresh("full")
    server = meta()
    with standing_still(server):
        for number in range(count):
            make(f"{a}/{name}/f{number}")
        for number in range(count if count > 3000 else 0):
            os.chmod(f"{a}/{name}/f{number}", 0o600)
        for number in range(count - count // 4, count):
            os.unlink(f"{a}/{name}/f{number}")
        assert int(status("queued_now")) >= count, status("queued_now")
        ended = event(server)
    if ended:
        ended()
    has(name, count - count // 4 + dots)


def killed(_):
    os.kill(int(status("server")), signal.SIGKILL)


def upgraded(_):
    upgrade = subprocess.Popen([spate, "mount", "--upgrade", a])
    time.sleep(0.5)  # the old process tries to send

    def ended():
        assert upgrade.wait(60) == 0, "the upgrade has failed"

    return ended


def without_meta(server):
    os.kill(server, signal.SIGKILL)
    os.kill(server, signal.SIGCONT)
    time.sleep(0.2)  # for some time nobody listens
    subprocess.run([spate, "up", "-q", "--dir", fs], check=True)


def content(number):
    return b"%d." % number * (1000 + number)


def write_early(path, number):
    """As tar does. Returns the open file."""
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    data = content(number)
    assert os.write(fd, data[:2000]) == 2000, path
    assert os.write(fd, data[2000:]) == len(data) - 2000, path
    os.utime(fd, ns=(10**9, number * 10**9 + number))
    os.fchmod(fd, 0o640)
    here = os.fstat(fd)
    assert (here.st_size, here.st_mtime_ns) == (len(data), number * 10**9 + number), here
    return fd


def warm_up():
    """The mount learns how much room the targets have."""
    for number in range(100):
        name, _ = fresh("warm")
        before = int(status("gathered_writes"))
        os.close(write_early(f"{a}/{name}/f", number))
        if int(status("gathered_writes")) > before:
            return
        time.sleep(0.05)
    raise AssertionError("nothing is gathered")


def is_content(path, number):
    with open(path, "rb") as file:
        got = file.read()
    assert got == content(number), f"{path} has {len(got)} bytes instead of {len(content(number))}, or other ones"
    state = os.stat(path)
    assert state.st_mtime_ns == number * 10**9 + number, f"{path}: {state}"
    assert state.st_mode & 0o7777 == 0o640, f"{path}: {state}"


def with_data(event, count=20):
    """The meta server stands still while files are made, written and closed, and something happens."""
    warm_up()
    name, dots = fresh("data")
    server = meta()
    with standing_still(server):
        for number in range(count):
            os.close(write_early(f"{a}/{name}/f{number}", number))
        left = os.open(f"{a}/{name}/left", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
        assert os.write(left, content(1)) == len(content(1)), "the write of the open file"
        assert int(status("queued_now")) >= 2 * count, status("queued_now")
        ended = event(server)
    if ended:
        ended()
    for number in range(count):
        is_content(f"{b}/{name}/f{number}", number)
        is_content(f"{a}/{name}/f{number}", number)
    assert os.pread(left, 10**6, 0) == content(1), "the open file has other data"
    assert os.write(left, content(2)) == len(content(2)), "a later write"
    os.fsync(left)
    os.close(left)
    with open(f"{b}/{name}/left", "rb") as file:
        assert file.read() == content(1) + content(2), "the open file has other data for the other mount"
    has(name, count + 1 + dots)



def read_before_an_upgrade():
    """The kernel reads its own pages, so the mount knows only of the open. atime is its time, though the process that knew it ends before the close."""
    name, _ = fresh("read")
    path = f"{a}/{name}/f"
    with open(path, "w") as file:
        file.write("text")
    later = time.time() + 1000
    os.utime(path, (later - 2000, later))  # each read sets atime
    with open(path) as file:
        file.read()  # brings the pages
    for _ in range(100):
        if int(status("queued_now")) == 0:  # the server has made it
            break
        time.sleep(0.05)
    time.sleep(1)  # so that the times of this read and the next differ
    before, opens = time.time(), queued()
    fd = os.open(path, os.O_RDONLY)
    assert os.read(fd, 10) == b"text", "the file has other data"
    after = time.time()
    assert queued() > opens, "the open was not answered locally"
    time.sleep(1)  # so that the times of the read and of the close differ
    upgraded(None)()
    os.close(fd)
    time.sleep(0.5)  # nothing tells when the close of an earlier process's open has come
    atime = os.stat(f"{b}/{name}/f").st_atime
    assert before - 0.1 <= atime <= after + 0.1, f"atime is {atime - after} s after the read"


seen()
written()
lists()
removed()
opened()
listed()
order()
read_before_an_upgrade()
with_full_queue(killed)
with_full_queue(upgraded)
with_full_queue(without_meta, 4000)  # some 12,000 changes
if status("gathered_writes") is not None:
    read_back()
    with_data(lambda _: None)
    with_data(killed)
    with_data(upgraded)
    with_data(without_meta)
    assert int(status("gathered_requests_lost")) == 0, "gathered writes were lost"
lost = int(status("queued_changes_lost"))
assert lost == 0, f"{lost} changes were lost"
