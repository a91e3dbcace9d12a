# SPDX-License-Identifier: Apache-2.0
"""Names that the kernel keeps in directories delegated to a mount: delegated_names.py epochs | requests SPATE MOUNT yes|no | changes MOUNT OTHER EVENT"""
import os
import subprocess
import sys
import tempfile

CALLS = 300


def equal(what, got, wanted):
    if got != wanted:
        raise SystemExit(f"{what}: {got!r}, should be {wanted!r}")


def there(path):
    return os.path.lexists(path)


def warm(folder, names):
    for name in names * 3:
        there(f"{folder}/{name}")


def requests_of(spate, mount):
    text = subprocess.run([spate, "mount", "--status", mount], check=True, capture_output=True, text=True).stdout
    return int(dict(line.split(" ", 1) for line in text.splitlines() if " " in line)["requests"])


def requests(spate, mount, keeps_names):
    """A stat of a file four directories deep is two requests: the name of the first directory and the attributes."""
    top = tempfile.mkdtemp(dir=mount)
    os.makedirs(f"{top}/x/y/z")
    path = f"{top}/x/y/z/file"
    open(path, "w").close()
    os.stat(path)
    before = requests_of(spate, mount)
    for _ in range(CALLS):
        os.stat(path)
    sent = requests_of(spate, mount) - before
    most = 2.5 * CALLS if keeps_names == "yes" else 7 * CALLS
    assert sent < most, f"{CALLS} times stat took {sent} requests, at most {most}"


def kernel_has_epochs():
    """Linux 6.16."""
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor.split("-")[0])) >= (6, 16)


def changed(mount, other, what, event, change, names):
    """`change(folder)` by the other mount. Afterwards each of the names exists on both mounts, or on neither."""
    here = tempfile.mkdtemp(dir=mount)
    folder = f"{other}/{os.path.basename(here)}"
    os.mkdir(f"{here}/sub")
    for name in ("one", "two", "sub/inner"):
        with open(f"{here}/{name}", "w") as file:
            file.write(name)
    warm(here, ["one", "two", "none", "sub", "sub/inner", "sub/none"])
    if event:
        subprocess.run(event, shell=True, check=True)
    change(folder)
    for name, wanted in names.items():
        equal(f"{what}: {name} here", there(f"{here}/{name}"), wanted)
        equal(f"{what}: {name} there", there(f"{folder}/{name}"), wanted)
    os.mkdir(f"{here}/after")
    equal(f"{what}: made afterwards", there(f"{folder}/after"), True)


def changes(mount, other, event):
    def rename(folder):
        os.rename(f"{folder}/one", f"{folder}/none")

    def swap(folder):
        os.rename(f"{folder}/two", f"{folder}/one")

    def make(folder):
        open(f"{folder}/sub/none", "x").close()

    def remove(folder):
        os.unlink(f"{folder}/sub/inner")

    def move(folder):
        os.rename(f"{folder}/sub", f"{folder}/none")

    changed(mount, other, "rename", event, rename, {"one": False, "none": True})
    changed(mount, other, "create", event, make, {"sub/none": True, "sub/inner": True})
    # A mount whose server ends more often within a minute is given up.
    changed(mount, other, "replace", "", swap, {"one": True, "two": False})
    changed(mount, other, "unlink", "", remove, {"sub/inner": False})
    changed(mount, other, "rename of a directory", "", move, {"sub": False, "sub/inner": False, "none/inner": True})


if __name__ == "__main__":
    mode, *words = sys.argv[1:]
    if mode == "epochs":
        sys.exit(0 if kernel_has_epochs(*words) else 1)
    {"requests": requests, "changes": changes}[mode](*words)
