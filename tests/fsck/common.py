# SPDX-License-Identifier: Apache-2.0
"""Code that the tests of this folder share: a file system whose stores can be damaged, and the findings of fsck."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.environ["SPATE_SOURCE"], "tests/integration"))
from cluster import BIN, Cluster, alive, check, make_tree, same_tree, wait_until  # noqa: E402,F401

DAMAGE = os.path.join(BIN, "spate-damage")
CLEAN, REPAIRED, LEFT, INCOMPLETE = 0, 1, 4, 8


class Checked(Cluster):
    def fsck_says(self, code, *args):
        """Runs `spate fsck --json ARGS`, which must exit with `code`. Returns its findings and summary."""
        if code & (REPAIRED | INCOMPLETE):
            done = self.run("fsck", "--json", *args, timeout=300)
        else:
            done = self.complete_fsck("--json", *args)
        said = done.stdout.decode()
        check(done.returncode == code, "fsck %s: exit %d, not %d\n%s%s" % (" ".join(args), done.returncode, code, said, done.stderr))
        report = json.loads(said)
        return report["findings"], report.get("summary")

    def handle(self, path):
        return json.loads(self.spate("stat", "--json", "spate:" + path))[0]["handle"]

    def damage(self, *words):
        """Edits the meta server's store while the servers are stopped."""
        self.spate("down", "-q", "--dir", self.dir)
        subprocess.run([DAMAGE, self.dir + "/server-1/keyval", *map(str, words)], check=True, timeout=60)
        self.up()


def kinds(findings):
    return sorted(f["damage"] for f in findings)
