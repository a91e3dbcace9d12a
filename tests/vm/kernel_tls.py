#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tcp+tls:// where the kernel encrypts what is sent: data come back whole, by sendfile too, and the kernel's counters tell that it was
the kernel. In a virtual machine whose kernel has the module `tls`."""
import os

from vm import Machine, in_guest

BIN = os.environ["SPATE_BIN"]
# Modules that gcm(aes) needs: no modprobe in the guest looks for them.
MODULES = ["tls", "aes_generic", "ghash_generic", "ctr", "gcm", "seqiv"]

SCRIPT = """
set -e
bin=%(bin)s
export HOME=/tmp XDG_STATE_HOME=/tmp/state
# The processor is emulated: what takes a millisecond elsewhere may take a second here.
export SPATE_CLIENT_DEADLINE="120 s" SPATE_NETWORK_CONNECT_TIMEOUT="60 s"
ip link set lo up
cd /tmp
$bin/spate up -q --tls --dir /tmp/fs --io 2
$bin/spate ping --timeout 60000 | tee said
grep -q "tcp+tls://.*" said
grep -q "sent by the kernel" said
head -c 20000000 /dev/urandom > data
$bin/spate put spate:/data < data
$bin/spate get spate:/data > again
cmp data again
cp -r /usr/include/linux tree
$bin/spate cp -q -r tree spate:/tree
$bin/spate cp -q -r spate:/tree back
diff -r tree back
$bin/spate stats --prometheus 2 | grep tls_
[ "$($bin/spate stats --prometheus 2 | sed -n 's/^spate_bmi_tls_sent_by_kernel.* //p')" -gt 0 ]
cat /proc/net/tls_stat
[ "$(sed -n 's/^TlsTxSw[[:space:]]*//p' /proc/net/tls_stat)" -gt 0 ]
$bin/spate fsck
$bin/spate down -q --dir /tmp/fs
echo VM-TLS
"""


def main():
    output = Machine(modules=MODULES).run(SCRIPT % {"bin": in_guest(BIN)}, timeout=1100).split("\n")
    if "VM-TLS" not in output:
        raise AssertionError("the script did not come to its end")


main()
