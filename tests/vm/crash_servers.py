# SPDX-License-Identifier: Apache-2.0
"""The servers on the machines of crash_machines.py: the first SPATE_VM_METAS ones (1) are meta servers."""
import os

METAS = list(range(1, 1 + int(os.environ.get("SPATE_VM_METAS", "1"))))
IOS = [len(METAS) + number for number in (1, 2, 3)]
SERVERS = METAS + IOS
