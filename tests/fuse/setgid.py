#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An owner who is not in the owning group changes the mode or the access list of a file that lends the group's rights:
setgid.py DIRECTORY"""
import os
import stat
import struct
import sys

OWNER, GROUP = 65534, 4242


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 0xFFFFFFFF
LIST = acl((1, 7, NOBODY), (2, 4, 1234), (4, 5, NOBODY), (0x10, 5, NOBODY), (0x20, 5, NOBODY))
MODE_AS_LIST = acl((1, 7, NOBODY), (4, 5, NOBODY), (0x20, 5, NOBODY))

CHANGES = {
    "chmod": lambda path: os.chmod(path, 0o2755),
    "fchmod": lambda path: os.fchmod(os.open(path, os.O_RDONLY), 0o2755),
    "list": lambda path: os.setxattr(path, "system.posix_acl_access", LIST),
    "mode as a list": lambda path: os.setxattr(path, "system.posix_acl_access", MODE_AS_LIST),
}


def set_attribute(path):
    os.setxattr(path, "user.a", b"b")



def keeps_setgid(path, change, groups, user=OWNER):
    os.chown(path, OWNER, GROUP)
    os.chmod(path, 0o2755)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups(groups)
            os.setresgid(OWNER, OWNER, OWNER)
            os.setresuid(user, user, user)
            change(path)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"{path}: the change failed"
    return os.stat(path).st_mode & stat.S_ISGID != 0


def main():
    directory = sys.argv[1]
    for name in CHANGES:
        open(f"{directory}/{name}", "wb").close()
        os.mkdir(f"{directory}/{name} of a directory")
    for what in "", " of a directory":
        for name, change in CHANGES.items():
            path = f"{directory}/{name}{what}"
            assert not keeps_setgid(path, change, []), f"{name}{what}: a stranger's change leaves setgid"
            assert keeps_setgid(path, change, [1, GROUP]), f"{name}{what}: a member's change clears setgid"
            assert keeps_setgid(path, change, [], 0), f"{name}{what}: root's change clears setgid"
    assert keeps_setgid(f"{directory}/chmod", set_attribute, []), "another attribute clears setgid"


main()
