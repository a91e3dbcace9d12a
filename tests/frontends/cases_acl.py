# SPDX-License-Identifier: Apache-2.0
"""Permissions by user, group, mode and access control list: the rights of each user; how lists are set, inherited and
cut."""
import os
import struct
import sys

OWNER, USER, OWNING_GROUP, GROUP, MASK, OTHERS = 1, 2, 4, 8, 16, 32
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
ALICE, BOB, STRANGER, STAFF, TEAM = 1001, 1002, 1003, 2001, 2002


def acl(*entries):
    value = struct.pack("<I", 2)
    for tag, permissions, *who in entries:
        value += struct.pack("<HHI", tag, permissions, who[0] if who else 0xFFFFFFFF)
    return value


def shown(value):
    names = {1: "u", 2: "u:%d", 4: "g", 8: "g:%d", 16: "m", 32: "o"}
    entries = [struct.unpack_from("<HHI", value, at) for at in range(4, len(value), 8)]
    return " ".join((names[t] % i if "%" in names[t] else names[t]) + "=%d" % p for t, p, i in entries)


def full(owner, user, owning_group, group, mask, others):
    return acl((OWNER, owner), (USER, user, BOB), (OWNING_GROUP, owning_group), (GROUP, group, TEAM), (MASK, mask), (OTHERS, others))


def mode_of(st):
    return "%o %d:%d" % (st.st_mode, st.st_uid, st.st_gid)


def show_lists(r, path):
    r.do("stat", path, show=mode_of)
    for name in (ACCESS, DEFAULT):
        r.do("getxattr", path, name, show=shown)
    r.do("listxattr", path)


def as_user(r, uid, gid, groups, act):
    """Runs act(r) in a child with these ids and a new front end. Its lines go to our output."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            r.begin_anew()
            act(r)
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    r.say("child %d" % status)


def setting(r):
    """Which lists are accepted, and how they change the mode."""
    r.do("mkdir", "/set", 0o755)
    r.frontend.close(r.open("/set/file", os.O_CREAT | os.O_WRONLY, 0o640))
    r.do("symlink", "file", "/set/link")
    good = full(6, 6, 4, 2, 7, 0)
    values = {"none": b"", "header only": acl(), "plain": acl((OWNER, 7), (OWNING_GROUP, 5), (OTHERS, 1)), "full": good,
              "mask only": acl((OWNER, 6), (OWNING_GROUP, 4), (MASK, 4), (OTHERS, 0)),
              "no mask": acl((OWNER, 6), (USER, 6, BOB), (OWNING_GROUP, 4), (OTHERS, 0)), "no others": good[:-8],
              "no owner": acl((OWNING_GROUP, 4), (OTHERS, 0)), "order": acl((OWNER, 6), (OTHERS, 4), (OWNING_GROUP, 0)),
              "twice": acl((OWNER, 6), (OWNER, 6), (OWNING_GROUP, 4), (OTHERS, 0)), "bits": acl((OWNER, 8), (OWNING_GROUP, 4), (OTHERS, 0)),
              "tag": acl((OWNER, 6), (3, 4), (OTHERS, 0)), "cut": good[:-3], "version": b"\1\0\0\0" + good[4:], "short": b"\2\0"}
    for path in ("/set/file", "/set"):
        for kind in (ACCESS, DEFAULT):
            for name, value in values.items():
                r.say("%s %s: %s" % (path, kind, name))
                r.do("setxattr", path, kind, value)
                show_lists(r, path)
    for path in ("/set/file", "/set"):
        r.do("setxattr", path, ACCESS, good)
        for mode in (0o777, 0o700, 0o070, 0o604, 0o2751):
            r.do("chmod", path, mode)
            show_lists(r, path)
        r.do("removexattr", path, ACCESS)
        r.do("removexattr", path, DEFAULT)
        show_lists(r, path)


def inheriting(r):
    defaults = {"full": full(7, 6, 5, 4, 6, 5), "plain": acl((OWNER, 7), (OWNING_GROUP, 5), (OTHERS, 4)), "none": b""}
    for name, value in defaults.items():
        top = "/from_" + name
        r.do("mkdir", top, 0o777)
        r.do("setxattr", top, DEFAULT, value)
        for mode in (0o777, 0o666, 0o640, 0o600, 0o400, 0o3777):
            fd = r.open("%s/file%o" % (top, mode), os.O_CREAT | os.O_WRONLY, mode)
            if fd is not None:
                r.frontend.close(fd)
            show_lists(r, "%s/file%o" % (top, mode))
            r.do("mkdir", "%s/dir%o" % (top, mode), mode & 0o777)
            show_lists(r, "%s/dir%o" % (top, mode))
        r.do("mkdir", top + "/dir777/deeper", 0o770)
        show_lists(r, top + "/dir777/deeper")
        r.do("symlink", "x", top + "/link")
        r.do("lstat", top + "/link", show=mode_of)


LISTS = {"mode": None, "user": full(7, 6, 0, 0, 7, 0), "masked": full(7, 7, 7, 7, 4, 0), "no mask rights": full(7, 7, 7, 7, 0, 4),
         "group": full(6, 0, 2, 5, 7, 7), "owner less": full(0, 7, 7, 7, 7, 7), "others": full(7, 0, 0, 0, 0, 7)}
MODES = (0o700, 0o070, 0o007, 0o750, 0o640, 0o604, 0o711, 0o000)


def matrix(r):
    r.do("mkdir", "/m", 0o755)
    places = []
    for name, value in LISTS.items():
        for mode in MODES if value is None else (None,):
            place = "/m/%s%s" % (name.replace(" ", "_"), "" if mode is None else "%o" % mode)
            r.do("mkdir", place, 0o777)
            r.frontend.close(r.open(place + "/file", os.O_CREAT | os.O_WRONLY, 0o666))
            for path in (place + "/file", place):
                r.do("chown", path, ALICE, STAFF)
                if value is None:
                    r.do("chmod", path, mode)
                else:
                    r.do("setxattr", path, ACCESS, value)
            places.append(place)
    for uid, gid, groups in ((ALICE, TEAM, []), (BOB, TEAM, []), (STRANGER, STAFF, []), (STRANGER, 3000, [STAFF]), (STRANGER, TEAM, []),
                             (STRANGER, 3000, [TEAM, 3001]), (STRANGER, 3000, []), (0, 0, [])):
        as_user(r, uid, gid, groups, lambda r: try_all(r, places))


def try_all(r, places):
    for place in places:
        for wanted in range(8):
            r.do("access", place, wanted)
        for path in (place, place + "/file"):
            r.do("stat", path, show=mode_of)
        for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
            use(r, place + "/file", flags)
        use(r, place, os.O_RDONLY | os.O_DIRECTORY)
        r.do("listdir", place)
        fd = r.open(place + "/new%d" % os.getuid(), os.O_CREAT | os.O_WRONLY, 0o600)
        if fd is not None:
            r.frontend.close(fd)
            r.do("unlink", place + "/new%d" % os.getuid())
        r.do("truncate", place + "/file", 0)
        r.do("rename", place + "/file", place + "/file")
        for call, *rest in (("getxattr", ACCESS), ("getxattr", "user.x"), ("setxattr", "user.x", b"1"), ("removexattr", "user.x")):
            r.do(call, place + "/file", *rest)
        if os.getuid() != ALICE:  # the owner could change what others see
            r.do("setxattr", place + "/file", ACCESS, LISTS["user"]) if os.getuid() != 0 else None
            r.do("chmod", place + "/file", 0o777) if os.getuid() != 0 else None


def use(r, path, flags):
    fd = r.open(path, flags)
    if fd is not None:
        r.frontend.close(fd)


def run(r):
    setting(r)
    inheriting(r)
    if os.getuid() == 0:
        matrix(r)
