#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/package: its packages are complete and correct, work on a Debian with nothing else on it, may be reinstalled
while servers run, and leave data alone when they are removed."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.environ["SPATE_SOURCE"]
sys.path[:0] = [SOURCE + "/tests/newcomer", SOURCE + "/tests/integration"]
from bare_chroot import bare_debian, inside, install, run, walk_as_newcomer  # noqa: E402
from cluster import check, skip  # noqa: E402
from mpi_programs import both_mpis  # noqa: E402

LATER = "99.0.0"  # than any version of the sources
# A machine without these builds packages as root@HOST, which lintian refuses.
os.environ.setdefault("DEBFULLNAME", "Spate maintainers")
os.environ.setdefault("DEBEMAIL", "maintainers@spate.example")
NAMES = {"spate", "spate-server", "spate-fuse", "libspate1", "libspate-dev", "spate-mpi", "python3-spate"}

# Reports of lintian that remain, and why.
EXPLAINED = {
    "initial-upload-closes-no-bugs": "there is no upload to Debian",
    "no-manual-page": "spate-broker is started by the library of `spate run`, never by hand",
    "package-name-doesnt-match-sonames": "libraries that `spate run` loads into programs by their paths; no program is linked with them",
    "shared-library-lacks-version": "the same",
    "bogus-mail-host": "who builds them has whatever address this machine has",
    "bogus-mail-host-in-debian-changelog": "the same",
    "lacks-ldconfig-trigger": "the same",
    "systemd-service-file-refers-to-unusual-wantedby-target": "spate.target is in the same package",
}

USE = """
export HOME=/root SPATE_FS=/srv/data
spate up --dir /srv/data --io 2
echo kept | spate put spate:/file
python3 -W error -c 'import spate; print("by Python:", spate.connect().open_file("/file").pread(9, 0))'
"""
LOOK = "export HOME=/root SPATE_FS=/srv/data; spate up --dir /srv/data; spate cat spate:/file; spate down --dir /srv/data"


def lint(folder):
    changes = glob.glob(folder + "/*.changes")
    check(len(changes) == 1, "changes: %s" % changes)
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", "--suppress-tags", ",".join(EXPLAINED), *changes],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200)
    check(done.returncode == 0, "lintian: " + done.stdout)


def list_of_parts(folder):
    with open(glob.glob(folder + "/*.spdx.json")[0], encoding="utf-8") as file:
        parts = json.load(file)
    names = {part["name"]: part["versionInfo"] for part in parts["packages"]}
    for name in ("spate", "librocksdb-dev", "libfabric1", "liburing2", "libfuse3-3", "libc6", "libstdc++6"):
        check(names.get(name), "%s is not in the SPDX list: %s" % (name, names))
    check(len(parts["relationships"]) == len(parts["packages"]), "not everything is linked with something")


def source(folder):
    archive = glob.glob(folder + "/*.orig.tar.gz")[0]
    names = run("tar", "-tf", archive).splitlines()
    check(any(name.endswith("/CMakeLists.txt") for name in names), "no source in " + archive)


def on_bare_debian(debs):
    with bare_debian() as root:
        os.mkdir(root + "/packages")
        for deb in debs:
            shutil.copy(deb, root + "/packages")
        files = sorted("/packages/" + os.path.basename(deb) for deb in debs)
        install(root, *files)
        walk_as_newcomer(root)
        both_mpis(root)
        again = USE + "dpkg -i %s > /dev/null 2>&1; spate status; spate cat spate:/file; spate down --dir /srv/data" % " ".join(files)
        said = inside(root, again)
        check("by Python: b'kept" in said, "the Python package: " + said)
        check("kept" in said and said.count(" up ") >= 3, "after an upgrade under running servers: " + said)
        inside(root, "dpkg --purge %s" % " ".join(sorted(NAMES)))
        check(not os.path.exists(root + "/usr/bin/spate"), "spate is still there")
        left = [name for _, _, names in os.walk(root + "/usr") for name in names if "spate" in name]
        check(not left, "left behind: %s" % left)
        check(os.path.exists(root + "/srv/data/spate.toml"), "the data is gone")
        install(root, *files)
        check("kept" in inside(root, LOOK), "the data cannot be read any more")


def upgraded(folder, later):
    """The later packages are the same sources under another number: the compiler's cache knows most of them."""
    run(SOURCE + "/scripts/package", "--version", LATER, later)
    debs = glob.glob(later + "/*.deb")
    check(len(debs) == len(NAMES) and all("_%s-" % LATER in deb for deb in debs), "packages of %s: %s" % (LATER, debs))
    said = run(sys.executable, SOURCE + "/tests/packages/upgrade.py", folder, later)
    print(said)


def main():
    for program in ("dh", "lintian", "debootstrap"):
        if shutil.which(program) is None:
            skip("needs " + program)
    with tempfile.TemporaryDirectory(prefix="spate-test-") as folder:
        run(SOURCE + "/scripts/package", folder)
        debs = glob.glob(folder + "/*.deb")
        names = {os.path.basename(deb).split("_")[0] for deb in debs}
        check(names == NAMES, "packages: %s" % names)
        lint(folder)
        list_of_parts(folder)
        source(folder)
        on_bare_debian(debs)
        upgraded(folder, folder + "/later")


main()
