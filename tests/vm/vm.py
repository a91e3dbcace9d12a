# SPDX-License-Identifier: Apache-2.0
"""A virtual machine with a kernel that has what the host's may lack: RDMA in software, network block devices.

    machine = Machine(modules=["rdma_rxe"])
    output = machine.run("rdma link", timeout=60)      # raises when the script fails

The guest sees the host's files, read-only, as its root; /tmp, /run and /dev/shm are its own and gone with it (in_guest()
gives the path of a host's file whatever folder it is in). The kernel is
Debian's, downloaded once into the cache folder (SPATE_VM_CACHE, else ~/.cache/spate/vm) and not installed. Without KVM, which
need not be there: the processor is emulated, so everything takes ten times as long and no figure means anything.
"""
import glob
import hashlib
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile

KERNEL = "linux-image-6.12-amd64"
SOURCE = "linux-source-6.12"  # for tests/vm/build-kernel
QEMU = "qemu-system-x86_64"
TRANSPORT = ["9pnet_virtio", "9p"]  # for the host's files


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


def in_guest(path):
    return "/run/host" + os.path.abspath(path)


def cache_folder():
    default = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spate", "vm")
    folder = os.environ.get("SPATE_VM_CACHE") or default
    os.makedirs(folder, exist_ok=True)
    return folder


def real_package(package):
    """Returns the package that has the files, if `package` only depends on it."""
    told = subprocess.run(["apt-cache", "depends", "--important", package], capture_output=True, text=True)
    names = re.findall(r"Depends: (linux-image-\S+)", told.stdout)
    return names[0] if names else package


def unpacked(package):
    """Returns the folder with the files of a Debian package. Downloads them if they are missing."""
    package = real_package(package)
    folder = os.path.join(cache_folder(), package)
    if os.path.isdir(folder):
        return folder
    if shutil.which("apt-get") is None:
        skip("no apt-get here to download %s" % package)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as work:
        got = subprocess.run(["apt-get", "download", "-q", package], cwd=work, capture_output=True, text=True)
        files = glob.glob(os.path.join(work, "*.deb"))
        if got.returncode != 0 or len(files) != 1:
            skip("%s cannot be downloaded (try: apt-get update): %s" % (package, got.stderr.strip()[-300:]))
        subprocess.run(["dpkg-deb", "-x", files[0], os.path.join(work, "files")], check=True)
        os.rename(os.path.join(work, "files"), folder)
    return folder


def own_kernel():
    """Returns the path where tests/vm/build-kernel puts its kernel. The path changes with p2p.config."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "p2p.config"), "rb") as f:
        return os.path.join(cache_folder(), "%s-%s" % (SOURCE.replace("source", "p2p"), hashlib.sha256(f.read()).hexdigest()[:12]))


class Modules:
    """The kernel's modules below `root`, by name, with their dependencies."""

    def __init__(self, root):
        self.files = {}
        for path in glob.glob(os.path.join(root, "**", "*.ko*"), recursive=True):
            self.files[os.path.basename(path).split(".")[0].replace("-", "_")] = path

    def image(self, name):
        path = self.files[name]
        if path.endswith(".xz"):
            return lzma.open(path).read()
        with open(path, "rb") as f:
            return f.read()

    def in_order(self, names):
        """Returns (name, image) of `names` and of all modules that they need, each after its dependencies. Omits
        built-in ones."""
        done = {}

        def add(name):
            name = name.replace("-", "_")
            if name in done or name not in self.files:
                return
            image = self.image(name)
            told = re.search(rb"(?:^|\0)depends=([^\0]*)", image)
            for need in filter(None, told.group(1).decode().split(",")) if told else ():
                add(need)
            done[name] = image

        for name in names:
            add(name)
        return list(done.items())


class Archive:
    """A cpio archive ("newc"), which the kernel unpacks as its first root."""

    def __init__(self):
        self.out = io.BytesIO()
        self.count = 0

    def add(self, name, mode, data=b""):
        self.count += 1
        fields = [self.count, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        self.out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0")
        self.pad()
        self.out.write(data)
        self.pad()

    def pad(self):
        self.out.write(b"\0" * (-self.out.tell() % 4))

    def bytes(self):
        self.add("TRAILER!!!", 0)
        return self.out.getvalue()


INIT = """#!/bin/busybox sh
bb=/bin/busybox
$bb mkdir -p /proc /sys /dev /host /again
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
for module in $($bb cat /modules/order); do
  $bb insmod /modules/$module || echo "VM-NO-MODULE $module"
done
$bb mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose host /host || echo "VM-NO-HOST"
$bb mount -o bind /host /again
for folder in proc sys dev; do $bb mount -o rbind /$folder /host/$folder; done
for folder in tmp run dev/shm; do
  [ -d /host/$folder ] || $bb mkdir -p /host/$folder
  $bb mount -t tmpfs tmpfs /host/$folder
done
$bb mkdir /host/run/host
$bb mount -o bind /again /host/run/host
$bb cp /script /host/run/script
$bb env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp $bb chroot /host /bin/bash /run/script </dev/null 2>&1
echo "VM-EXIT $?"
$bb poweroff -f
"""


class Machine:
    """`modules`: modules that the script needs for more than the host's files. `devices`: further arguments of QEMU.
    `kernel`: an image with everything built in, instead of Debian's."""

    def __init__(self, modules=(), devices=(), memory="2048M", kernel=None):
        if shutil.which(QEMU) is None:
            skip("%s is not here: apt-get install --no-install-recommends qemu-system-x86" % QEMU)
        self.busybox = os.path.join(unpacked("busybox-static"), "bin", "busybox")
        self.kernel, self.modules = kernel, []
        if kernel is None:
            files = unpacked(KERNEL)
            self.kernel = glob.glob(os.path.join(files, "boot", "vmlinuz-*"))[0]
            self.modules = Modules(files).in_order(TRANSPORT + list(modules))
        self.devices = list(devices)
        self.memory = memory

    def run(self, script, timeout=300, show=True):
        """Returns the output of `script` (bash, as root). Raises AssertionError if it does not end with status 0 within
        `timeout` s."""
        with tempfile.TemporaryDirectory(prefix="spate-vm-") as work:
            initrd = os.path.join(work, "initrd")
            with open(initrd, "wb") as f:
                f.write(self.initrd(script))
            output = self.boot(initrd, timeout, show)
        if "VM-EXIT 0" not in output.split("\n"):
            raise AssertionError("the guest's script failed or did not end:\n" + output[-4000:])
        return output

    def initrd(self, script):
        archive = Archive()
        for folder in ("bin", "modules"):
            archive.add(folder, 0o40755)
        with open(self.busybox, "rb") as f:
            archive.add("bin/busybox", 0o100755, f.read())
        archive.add("init", 0o100755, INIT.encode())
        archive.add("script", 0o100755, script.encode())
        archive.add("modules/order", 0o100644, "\n".join(name for name, _ in self.modules).encode())
        for name, image in self.modules:
            archive.add("modules/" + name, 0o100644, image)
        return archive.bytes()

    def boot(self, initrd, timeout, show):
        command = [
            QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", self.memory, "-M", "q35", "-nodefaults",
            "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot", "-nic", "none",
            "-kernel", self.kernel, "-initrd", initrd,
            # At the boot the kernel counts ticks of the timer within some milliseconds, and panics without them. On a loaded
            # machine the emulated timer has none to give.
            "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap", *self.devices]
        lines = []
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace") as qemu:
            timer = subprocess.Popen(["sh", "-c", "sleep %d && kill %d" % (timeout, qemu.pid)], start_new_session=True)
            try:
                for line in qemu.stdout:
                    lines.append(line.rstrip("\r\n"))
                    if show:
                        print("| " + lines[-1], flush=True)
            finally:
                qemu.kill()
                os.killpg(timer.pid, 9)
                timer.wait()
        return "\n".join(lines)
