#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A write through the kernel's pages costs one request to the mount. The kernel does not ask before each write for attributes that could lend rights.
. "$(dirname "$0")/lib.sh"
"$spate" up -q --dir "$dir/fs" --io 2 --port "$port"

# requests_of MOUNT COMMAND...: prints how many requests of the kernel the command has caused.
requests_of() {
  local before
  before=$(status "$1" requests)
  "${@:2}"
  echo "$(($(status "$1" requests) - before))"
}
write_blocks() { dd if=/dev/zero of="$dir/$1/file" bs=4096 count=200 conv=notrunc status=none; }

for name in own all; do
  if [ $name = all ] && [ "$(id -u)" != 0 ]; then continue; fi
  mount_at $name "$([ $name = own ] && echo leases || echo allow_other)"
  write_blocks $name
  requests=$(requests_of $name write_blocks $name)
  [ "$requests" -lt 300 ] || { echo "$name: 200 writes took $requests requests"; exit 1; }
  # What the mount and the kernel have agreed also holds for the next process of the mount.
  "$spate" mount --upgrade "$dir/$name"
  requests=$(requests_of $name write_blocks $name)
  [ "$requests" -lt 300 ] || { echo "$name, upgraded: 200 writes took $requests requests"; exit 1; }
done
