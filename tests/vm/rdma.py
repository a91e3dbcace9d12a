#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""RDMA for real, in software: the network conformance suite and a small file system over ofi+verbs, in a virtual machine
whose kernel has rdma_rxe. The device's own counters show that the data went through it."""
import os
import re
import sys

from rdma_device import ADDRESS, MODULES, SETUP
from vm import Machine, in_guest, skip

BIN = os.environ["SPATE_BIN"]
SOURCE = os.environ["SPATE_SOURCE"]

CONFORMANCE = SETUP + """
SPATE_TEST_VERBS=%s timeout 1000 %s/bmi_conformance_test --gtest_filter='*/ofi_verbs'%s || exit 1
counters conformance
"""

REGISTRATION = SETUP + """
SPATE_TEST_VERBS=%s timeout 200 %s/bmi_ofi_test --gtest_filter='RegistrationTest.*'%s || exit 1
counters registration
"""

FILES = SETUP + """
SPATE_RDMA=%s SPATE_BIN=%s SPATE_SOURCE=%s timeout 400 python3 %s || exit 1
counters files
"""


def counter(output, what, name):
    found = re.search(r"%s %s:(\d+)" % (what, name), output)
    if found is None or int(found.group(1)) == 0:
        raise AssertionError("the RDMA device counted no %s" % name)
    return int(found.group(1))


def main():
    if not os.path.exists(os.path.join(BIN, "libspate-bmi-ofi.so")):
        skip("built without libfabric-dev")
    machine = Machine(modules=MODULES)
    scripts = {"conformance": CONFORMANCE, "registration": REGISTRATION}
    if sys.argv[1] in scripts:
        more = " ".join(sys.argv[2:])
        output = machine.run(scripts[sys.argv[1]] % (ADDRESS, in_guest(BIN), " " + more if more else ""), timeout=1100)
        if not re.search(r"\[  PASSED  \] [1-9]\d* tests?", output):
            raise AssertionError("no test has run")
    else:
        guest = (ADDRESS, in_guest(BIN), in_guest(SOURCE), in_guest(os.path.join(SOURCE, "tests", "vm", "rdma_files.py")))
        output = machine.run(FILES % guest, timeout=500)
    for name in ("sent_pkts", "rcvd_pkts"):
        print(sys.argv[1], name, counter(output, sys.argv[1], name))


main()
