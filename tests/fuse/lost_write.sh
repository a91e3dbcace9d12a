#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An io server loses what a mount without gathered writes has written and not synced (here it keeps data in memory). close(2) on a mount reports that once, and only for
# files that have lost something.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port" --trove mem
for cache in auto none; do
  mount_at $cache nogather,nodelegate,cache=$cache
  python3 - "$dir/$cache" "$dir/fs" "$spate" << 'END'
import errno
import os
import signal
import subprocess
import sys

mount, fs, spate = sys.argv[1:]


def write(name):
    file = os.open(mount + "/" + name, os.O_WRONLY | os.O_CREAT)
    os.write(file, b"text")
    return file


def closed(file):
    try:
        os.close(file)
    except OSError as error:
        return error.errno
    return 0


lost, shared, synced, other = (write(name) for name in ("lost", "shared", "synced", "other"))
os.fsync(synced)
again = os.dup(shared)
with open(fs + "/run/server-2.pid") as file:
    os.kill(int(file.read().split()[0]), signal.SIGKILL)
subprocess.run([spate, "up", "-q", "--dir", fs], check=True)
os.write(other, b"the mount hears of the restart")
told = [closed(file) for file in (lost, shared, again, synced)]
assert told == [errno.EIO, errno.EIO, 0, 0], told
assert closed(write("new")) == 0
END
done
