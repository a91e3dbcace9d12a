#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The clients that people use, on a local and on a striped export: nbdinfo, nbdcopy, nbdsh, qemu-img, qemu-io, fio.
Missing ones are named and left out; without any the test is skipped."""
import os
import shutil
import subprocess
import sys
import tempfile

from common import Cluster, Export, check, timed
from cluster import skip
from tls import KEY, make_certificates

MIB = 1 << 20
SIZE = 64 * MIB
PATH = "/usr/bin:" + os.environ["PATH"]  # Debian's nbdsh needs Debian's python3


def run(*words, fails=False):
    done = subprocess.run(words, env=dict(os.environ, PATH=PATH), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
    text = done.stdout.decode(errors="replace")
    check((done.returncode != 0) == fails, "%s: exit %d: %s" % (" ".join(words), done.returncode, text))
    return text


def have(program):
    return shutil.which(program, path=PATH) is not None


def nbdinfo(url, work):
    text = run("nbdinfo", url)
    for line in ("export-size: %d" % SIZE, "can_multi_conn: true", "can_fua: true", "can_zero: true", "base:allocation"):
        check(line in text, "nbdinfo does not say %r: %s" % (line, text))
    run("nbdinfo", "--can", "connect", url)
    check(sum(int(line.split()[1]) for line in run("nbdinfo", "--map", url).splitlines()) == SIZE, "the map does not cover the export")
    run("nbdinfo", "--list", url)


def taken(path):
    """Returns the disk space in bytes of a file, or of all datafiles below a folder."""
    files = [path] if os.path.isfile(path) else [os.path.join(at, name) for at, _, names in os.walk(path) if "/target-0/d" in at for name in names]
    return sum(os.stat(file).st_blocks * 512 for file in files)


def nbdcopy(url, work):
    data = os.path.join(work, "data")
    with open(data, "wb") as f:
        f.write(os.urandom(20 * MIB))
        f.truncate(SIZE)
    behind = os.environ["SPATE_TEST_BEHIND"]
    run("nbdcopy", "--flush", data, url)
    check(taken(behind) < 24 * MIB, "a copy of 20 MiB and a hole takes %d bytes" % taken(behind))
    run("nbdcopy", url, data + ".back")
    check(taken(data + ".back") < 24 * MIB, "the copy back takes %d bytes" % taken(data + ".back"))
    check(open(data, "rb").read() == open(data + ".back", "rb").read(), "other bytes after nbdcopy")


def nbdsh(url, work):
    run("nbdsh", "-u", url, "-c", """
h.pwrite(b"abc" * 1000, 777, nbd.CMD_FLAG_FUA)
assert h.pread(3000, 777) == b"abc" * 1000
h.zero(1000, 777, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(3000, 777) == bytes(1000) + (b"abc" * 1000)[1000:]
h.trim(4096, 0); h.flush(); h.cache(65536, 0)
try:
    h.pread(512, h.get_size())
    raise SystemExit("no error beyond the end")
except nbd.Error:
    pass
""")


def qemu_img(url, work):
    image = os.path.join(work, "image.qcow2")
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", url, image)
    check("identical" in run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", url, image), "qemu-img compare")
    run("qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", image, url)
    check("identical" in run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", url, image), "qemu-img compare")


def qemu_io(url, work):
    run("qemu-io", "-f", "raw", "-c", "write -P 17 1M 3M", "-c", "write -z 2M 1M", "-c", "discard 3M 64k", "-c", "read -P 17 1M 1M",
        "-c", "read -P 0 2M 1M", "-c", "aio_write -P 5 8M 1M", "-c", "aio_read 8M 1M", "-c", "aio_flush", "-c", "flush", url)
    check("Pattern verification failed" in run("qemu-io", "-f", "raw", "-c", "read -P 18 1M 4k", url, fails=True), "qemu-io compares nothing")


def fio(url, work):
    run("fio", "--name=v", "--ioengine=nbd", "--uri=" + url, "--rw=randrw", "--bsrange=512-256k", "--blockalign=512", "--iodepth=16", "--size=32m",
        "--io_size=64m", "--verify=crc32c", "--verify_fatal=1", "--aux-path=" + work, "--output=" + os.path.join(work, "fio.txt"))


def with_tls(disk, work):
    """libnbd uses GnuTLS, another TLS library than ours."""
    folder = os.path.join(work, "pki")
    os.mkdir(folder)
    make_certificates(folder)
    with Export("--port", "0", "--tls", folder, disk) as export:
        url = export.url.replace("127.0.0.1", "localhost")
        check(str(SIZE) in run("nbdinfo", "--size", url + "?tls-certificates=" + folder), "nbdinfo by TLS")
        run("nbdcopy", url + "?tls-certificates=" + folder, os.path.join(work, "by-tls"))
        check(open(disk, "rb").read() == open(os.path.join(work, "by-tls"), "rb").read(), "other bytes by TLS")
        run("nbdinfo", "--size", url.replace("nbds:", "nbd:"), fails=True)
    keys = os.path.join(work, "keys.psk")
    with open(keys, "w") as f:
        f.write("alice:%s\n" % KEY)
    os.chmod(keys, 0o600)
    with Export("--port", "0", "--tls-psk", keys, disk) as export:
        url = export.url.replace("://", "://alice@")
        check(str(SIZE) in run("nbdinfo", "--size", url + "?tls-psk-file=" + keys), "nbdinfo by a key")


CLIENTS = [(nbdinfo, "nbdinfo"), (nbdcopy, "nbdcopy"), (nbdsh, "nbdsh"), (qemu_img, "qemu-img"), (qemu_io, "qemu-io"), (fio, "fio")]


def main():
    found = [(test, name) for test, name in CLIENTS if have(name)]
    print("not there: " + (", ".join(name for test, name in CLIENTS if not have(name)) or "none"))
    if not found:
        skip("no NBD client here (Debian: libnbd-bin, python3-libnbd, qemu-utils, fio)")
    with Cluster(io=2) as fs, tempfile.TemporaryDirectory(dir=fs.root) as work:
        disk = os.path.join(fs.root, "disk")
        with open(disk, "wb") as f:
            f.truncate(SIZE)
        fs.up()
        fs.spate("put", "spate:/disk", input=bytes(SIZE))
        environment = dict(fs.env, SPATE_FS=fs.dir)
        for words in (["--port", "0", disk], ["--unix", os.path.join(fs.root, "s"), "spate:/disk"]):
            os.environ["SPATE_TEST_BEHIND"] = disk if words[-1] == disk else fs.dir
            with Export(*words, env=environment) as export:
                for test, name in found:
                    with timed("%s of %s" % (name, words[-1])):
                        test(export.url, work)
        if have("nbdinfo") and have("nbdcopy"):
            with timed("TLS"):
                with_tls(disk, work)


if __name__ == "__main__":
    sys.exit(main())
