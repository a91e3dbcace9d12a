#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernel's own NBD client on block exports, in a virtual machine whose kernel has it: a file system made, filled, checked
and trimmed on an exported local file and on a striped one, over several connections."""
import glob
import os

from vm import Machine, in_guest, skip, unpacked

BIN = os.environ["SPATE_BIN"]
PACKAGES = ("nbd-client", "libnl-3-200", "libnl-genl-3-200")

SCRIPT = """
set -e
bin=%(bin)s
export HOME=/tmp XDG_STATE_HOME=/tmp/state LD_LIBRARY_PATH=%(libraries)s
ip link set lo up
cd /tmp

# eventually COMMAND...: waits until it succeeds.
eventually() {
  for _ in $(seq 300); do
    ! "$@" || return 0
    sleep 0.1
  done
  echo "waited in vain: $*"
  return 1
}

# use NAME URL-ARGUMENTS...: a file system on /dev/nbd0, and back.
use() {
  name=$1
  shift
  %(client)s "$@" /dev/nbd0 -N disk -C 2 -p
  [ "$(blockdev --getsize64 /dev/nbd0)" = 134217728 ]
  mkfs.ext4 -q /dev/nbd0
  mkdir -p mnt
  mount -o discard /dev/nbd0 mnt
  mkdir mnt/tree
  cp -r /usr/include/linux mnt/tree
  head -c 20000000 /dev/urandom > data
  cp data mnt/data
  sync -f mnt
  umount mnt
  echo 3 > /proc/sys/vm/drop_caches
  e2fsck -fn /dev/nbd0 > /dev/null
  mount -o discard /dev/nbd0 mnt
  cmp data mnt/data
  diff -r /usr/include/linux mnt/tree/linux
  rm mnt/data
  fstrim mnt
  umount mnt
  e2fsck -fn /dev/nbd0 > /dev/null
  dd if=/dev/nbd0 of=/dev/null bs=1M iflag=direct status=none
  %(client)s -d /dev/nbd0 > /dev/null
  echo "VM-NBD $name"
}

truncate -s 128M disk
$bin/spate-export --port 10809 disk=/tmp/disk > said &
export_pid=$!
eventually [ -s said ]  # its URL: it listens
use local 127.0.0.1 10809
kill $export_pid
wait $export_pid

$bin/spate up -q --dir /tmp/fs --io 2
truncate -s 128M empty
$bin/spate cp -q empty spate:/disk
$bin/spate-export --unix /tmp/socket disk=spate:/disk > said &
export_pid=$!
eventually [ -s said ]
use striped -unix /tmp/socket
kill $export_pid
wait $export_pid
$bin/spate down -q --dir /tmp/fs
"""


def main():
    if not os.path.exists(os.path.join(BIN, "spate-export")):
        skip("built without spate-export")
    folders = [unpacked(package) for package in PACKAGES]
    libraries = [os.path.dirname(found) for folder in folders for found in glob.glob(os.path.join(folder, "**", "libnl*.so.*"), recursive=True)]
    values = {"bin": in_guest(BIN), "client": in_guest(os.path.join(folders[0], "sbin", "nbd-client")),
              "libraries": ":".join(sorted({in_guest(folder) for folder in libraries}))}
    output = Machine(modules=["nbd", "ext4", "crc32c_generic"]).run(SCRIPT % values, timeout=500).split("\n")
    for name in ("local", "striped"):
        if "VM-NBD " + name not in output:
            raise AssertionError("nothing was done on the %s export" % name)


main()
