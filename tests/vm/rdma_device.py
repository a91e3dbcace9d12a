# SPDX-License-Identifier: Apache-2.0
"""An RDMA device in the guest: what the kernel must have, and the beginning of a script that makes one. Needs vm.py."""

ADDRESS = "10.77.0.1"
MODULES = ["rdma_rxe", "crc32_generic", "veth", "ib_uverbs", "rdma_ucm"]

SETUP = """
set -e
ip link set lo up
ip link add rdma0 type veth peer name rdma1
ip link set rdma0 up
ip link set rdma1 up
ip addr add %(address)s/24 dev rdma0
rdma link add rxe0 type rxe netdev rdma0
rdma link
ulimit -l unlimited
ulimit -c 0
cd /tmp
counters() { (cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . sent_pkts rcvd_pkts rdma_sends rdma_recvs) | sed "s/^/$1 /"; }
""" % {"address": ADDRESS}
