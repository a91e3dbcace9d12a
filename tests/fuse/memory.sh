#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount stays small when programs make and list many files. Its cache then holds as much as it may, some 25 MiB.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"
for options in nogather,nodelegate gather,delegate; do
  mount_at m "$options"
  python3 - "$dir/m/$options" << 'END'
import os
import sys

os.mkdir(sys.argv[1])
folder = os.open(sys.argv[1], os.O_RDONLY)
for number in range(27000):
    os.close(os.open("file%07d" % number, os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder))
END
  ls -l "$dir/m/$options" > /dev/null
  resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$(status m server)/status")
  echo "$options: $resident KiB"
  [ "$resident" -lt 56000 ]
  "$spate" umount "$dir/m"
done
