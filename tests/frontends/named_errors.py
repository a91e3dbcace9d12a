# SPDX-License-Identifier: Apache-2.0
"""named_errors.py LINES...: checks that the cases of the oracle met each error that POSIX.1-2017 (or, for Linux's own
calls, the manual) names for a call, so that it was compared on every front end. A list below names the errors that
cannot be met there, and where else they are tested."""
import re
import sys

PATH = "EACCES ELOOP ENAMETOOLONG ENOENT ENOTDIR"
NAMED = {
    "open": PATH + " EEXIST EINVAL EISDIR EPERM EMFILE ENFILE ENOSPC ENXIO EOVERFLOW EROFS ETXTBSY EINTR",
    "read": "EBADF EISDIR EIO EINTR", "pread": "EBADF EISDIR EINVAL EIO EINTR",
    "write": "EBADF EFBIG ENOSPC EDQUOT EIO EINTR", "pwrite": "EBADF EFBIG EINVAL ENOSPC EDQUOT EIO EINTR",
    "lseek": "EBADF EINVAL ENXIO EOVERFLOW", "ftruncate": "EBADF EFBIG EINVAL EIO EROFS", "fsync": "EBADF EIO ENOSPC", "fstat": "EBADF EOVERFLOW",
    "fallocate": "EBADF EFBIG EINVAL EISDIR ENODEV EOPNOTSUPP ENOSPC EINTR EIO EPERM",
    "copy_file_range": "EBADF EFBIG EINVAL EISDIR ENOSPC EXDEV ETXTBSY EPERM",
    "stat": PATH + " EOVERFLOW", "lstat": PATH + " EOVERFLOW", "access": PATH + " EINVAL EROFS ETXTBSY", "readlink": PATH + " EINVAL",
    "listdir": PATH, "mkdir": PATH + " EEXIST EMLINK ENOSPC EROFS",
    "rmdir": PATH + " EBUSY EINVAL ENOTEMPTY EPERM EROFS", "unlink": PATH + " EISDIR EBUSY EPERM EROFS ETXTBSY",
    "symlink": PATH + " EEXIST ENOSPC EROFS", "link": PATH + " EEXIST EMLINK ENOSPC EPERM EROFS EXDEV",
    "rename": PATH + " EBUSY EEXIST EINVAL EISDIR EMLINK ENOSPC ENOTEMPTY EPERM EROFS EXDEV",
    "truncate": PATH + " EFBIG EINVAL EISDIR EPERM EROFS ETXTBSY", "chmod": PATH + " EPERM EROFS", "fchmod": "EBADF EPERM EROFS",
    "chown": PATH + " EPERM EROFS", "utimens": PATH + " EPERM EROFS",
    "setxattr": PATH + " EEXIST ENODATA ENOSPC EDQUOT EOPNOTSUPP EPERM ERANGE E2BIG EINVAL EROFS", "getxattr": PATH + " ENODATA EOPNOTSUPP ERANGE",
    "listxattr": PATH + " EOPNOTSUPP ERANGE", "removexattr": PATH + " ENODATA EOPNOTSUPP EPERM EROFS",
}
ELSEWHERE = {  # error: why no case of these groups can meet it
    "EROFS": "of what is mounted read-only: tests/fuse/mount.sh", "ENOSPC": "of a full disk: tests/integration, src/server/io",
    "EDQUOT": "there are no quotas", "EIO": "of a broken disk or a lost write: tests/integration, tests/cluster", "EINTR": "tests/fuse/locks.py, tests/preload",
    "EMLINK": "ext4 ends at 65,000 links, Spate at as many as it says: src/server/meta", "ENFILE": "of the whole machine",
    "EOVERFLOW": "of programs of 32 bits", "EXDEV": "of two file systems: tests/preload", "ETXTBSY": "the kernel's own, of a program that runs",
    "EBUSY": "of mount points", "ENXIO open": "of a fifo without a reader, a device without a driver: tests/posix",
    "EMFILE": "the native API has no numbers: tests/preload", "ERANGE": "these front ends give room for the longest value: tests/capi, tests/preload",
    "EPERM fallocate": "of sealed or immutable files", "EPERM copy_file_range": "of immutable files", "EPERM truncate": "of append-only files",
    "EFBIG write": "as pwrite: no position lies so far away on ext4", "ENODEV fallocate": "of what is neither file nor directory", "EISDIR fallocate": "ext4 says EBADF: no directory is open for writing",
    "EINTR fallocate": "", "EOPNOTSUPP listxattr": "ext4 lists on every kind of file",
}


def main():
    met = {}
    for name in sys.argv[1:]:
        with open(name, errors="surrogateescape") as lines:
            for line in lines:
                found = re.match(r"\S+ \d+ (\w+)\(.*\) = (E[A-Z0-9]+)$", line)
                if found:
                    met.setdefault(found[1], set()).add({"ENOTSUP": "EOPNOTSUPP"}.get(found[2], found[2]))
    missing, excused, good = [], 0, 0
    for call, errors in NAMED.items():
        for error in errors.split():
            if error in met.get(call, ()):
                good += 1
            elif error in ELSEWHERE or "%s %s" % (error, call) in ELSEWHERE:
                excused += 1
            else:
                missing.append("%s of %s" % (error, call))
    print("%d of %d errors that are named for %d calls were met, %d cannot be here" % (good, good + excused + len(missing), len(NAMED), excused))
    if missing:
        print("never met: " + ", ".join(missing))
    sys.exit(bool(missing))


main()
