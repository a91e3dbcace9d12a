#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Path p2p for real: a disk whose blocks go to the memory of another PCI device and from there to the socket. QEMU's NVMe
with a controller memory buffer beside a second NVMe disk, in a virtual machine whose kernel has CONFIG_PCI_P2PDMA.

  p2p.py switch     both below one PCIe switch: the devices reach each other
  p2p.py flat       each at the root: the kernel refuses (EREMOTEIO), and the next best path is taken, counted and logged
"""
import os
import sys
import tempfile

from vm import Machine, in_guest, own_kernel, skip

BIN = os.environ["SPATE_BIN"]
SOURCE = os.environ["SPATE_SOURCE"]

SWITCH = ["-device", "pcie-root-port,id=root,chassis=1,slot=1", "-device", "x3130-upstream,id=up,bus=root",
          "-device", "xio3130-downstream,id=down0,bus=up,chassis=2,slot=2", "-device", "xio3130-downstream,id=down1,bus=up,chassis=3,slot=3"]

SCRIPT = """
set -e
ip link set lo up
ulimit -c 0
mkfs.ext4 -q /dev/nvme0n1
mkdir /tmp/disk
mount /dev/nvme0n1 /tmp/disk
cd /tmp
SPATE_P2P=%s SPATE_BIN=%s SPATE_SOURCE=%s timeout 400 python3 %s || exit 1
"""


def main():
    kernel = own_kernel()
    if not os.path.exists(kernel):
        skip("no kernel with CONFIG_PCI_P2PDMA here: tests/vm/build-kernel builds one, once (10 to 30 minutes)")
    where = sys.argv[1]
    bus = ("down0", "down1") if where == "switch" else ("pcie.0", "pcie.0")
    guest = (where, in_guest(BIN), in_guest(SOURCE), in_guest(os.path.join(SOURCE, "tests", "vm", "p2p_files.py")))
    with tempfile.NamedTemporaryFile(prefix="spate-vm-disk-") as disk:
        disk.truncate(512 << 20)
        devices = (SWITCH if where == "switch" else []) + [
            "-drive", "file=%s,if=none,id=data,format=raw,cache=unsafe" % disk.name, "-device", "nvme,serial=data,drive=data,bus=" + bus[0],
            "-device", "nvme,serial=peer,cmb_size_mb=64,bus=" + bus[1]]
        output = Machine(devices=devices, kernel=kernel).run(SCRIPT % guest, timeout=500)
    if "VM-P2P " + where not in output.split("\n"):
        raise AssertionError("nothing was shown")


main()
