#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# chmod and setfacl clear setgid when the caller is not in the owning group, as on a local file system.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" = 0 ] || { echo 'skipped: needs root, to be several users'; exit 77; }
"$spate" up -q --dir "$dir/fs" --io 1 --port "$port"
chmod 755 "$dir"
mount_at acl allow_other
mount_at noacl allow_other,noacl
mkdir "$dir/acl/there" "$dir/acl/again" "$dir/noacl/too"
python3 "$(dirname "$0")/setgid.py" "$dir/acl/there"
python3 "$(dirname "$0")/setgid.py" "$dir/noacl/too"
# What the mount and the kernel have agreed also holds for the next process of the mount.
"$spate" mount --upgrade "$dir/acl"
python3 "$(dirname "$0")/setgid.py" "$dir/acl/again"
