#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for an etcd on a slow disk: it listens at once, and has its records after a second. It answers nothing.

Called as etcd is: slow_etcd.py --config-file FILE."""
import json
import os
import socket
import sys
import time

with open(sys.argv[2]) as f:
    settings = json.load(f)
host, port = settings["listen-client-urls"].removeprefix("https://").rsplit(":", 1)
listener = socket.create_server((host, int(port)))
time.sleep(1)  # the time that the disk takes
os.makedirs(settings["data-dir"] + "/member/wal")
while True:
    listener.accept()[0].close()
