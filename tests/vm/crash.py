#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines that lose power, with real file systems on disks that forget what was not flushed: all servers' machines at once, which
start again in several orders, and one machine alone. In a virtual machine whose kernel has dm-log-writes.

  crash.py NO_SYNC [SEED [METAS]]     NO_SYNC: the library of no_sync.c; METAS: as many meta servers (1), several with etcd
"""
import os
import shutil
import sys
import tempfile

from vm import Machine, in_guest, skip

BIN = os.environ["SPATE_BIN"]
SOURCE = os.environ["SPATE_SOURCE"]
MODULES = ["virtio_blk", "dm_mod", "dm_log_writes", "ext4", "crc32c_generic"]

SCRIPT = """
set -e
ip link set lo up
ulimit -c 0
mount --make-rshared /  # or the servers' own name spaces would keep the disks mounted
mkdir /tmp/fs
cd /tmp
export HOME=/tmp XDG_STATE_HOME=/tmp/state SPATE_FS=/tmp/fs SPATE_CLIENT_DEADLINE="300 s"
SPATE_VM_METAS=%s SPATE_BIN=%s SPATE_SOURCE=%s timeout 2000 python3 %s %s %s || exit 1
"""


def main():
    if shutil.which("dmsetup") is None:
        skip("dmsetup is not here: apt-get install dmsetup")
    seed = sys.argv[2] if len(sys.argv) > 2 else "1"
    metas = sys.argv[3] if len(sys.argv) > 3 else "1"
    if metas != "1" and shutil.which("etcd") is None:
        skip("etcd is not here: apt-get install etcd-server")
    guest = (metas, in_guest(BIN), in_guest(SOURCE), in_guest(os.path.join(SOURCE, "tests", "vm", "crash_files.py")), seed, in_guest(sys.argv[1]))
    with tempfile.NamedTemporaryFile(prefix="spate-vm-disk-") as disk:
        disk.truncate(12 << 30)
        devices = ["-drive", "file=%s,if=none,id=data,format=raw,cache=unsafe" % disk.name, "-device", "virtio-blk-pci,drive=data"]
        output = Machine(modules=MODULES, devices=devices).run(SCRIPT % guest, timeout=2100)
    if "VM-CRASH" not in output.split("\n"):
        raise AssertionError("the script did not come to its end")


main()
