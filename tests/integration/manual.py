#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manual pages say what `spate help`, `spate config explain`, the programs' --help and spate.h say; man and mandoc find no
fault in them; zsh and fish complete what bash does."""
import json
import os
import re
import shutil
import subprocess
import tempfile

from cluster import BIN, SPATE, check

SOURCE = os.environ["SPATE_SOURCE"]
ESCAPES = {"\\(rs": "\\", "\\-": "-", "\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\&": ""}


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    check(done.returncode == 0, "%s: exit %d: %s" % (" ".join(words), done.returncode, done.stdout))
    return done.stdout


def words(text):
    return " ".join(text.split())


class Manual:
    def __init__(self, folder):
        self.folder = folder
        run(SOURCE + "/packaging/write-manual", BIN, folder, env=dict(os.environ, SOURCE_DATE_EPOCH="86400"))

    def files(self):
        return sorted(os.path.join(d, f) for d, _, files in os.walk(self.folder) for f in files)

    def text(self, page):
        """Returns the text as a reader sees it: without requests and escapes, with blanks between words."""
        with open("%s/man%s/%s" % (self.folder, page[-1], page), encoding="utf-8") as file:
            source = file.read()
        lines = [re.sub(r'^\.(?:B|SH|SS) "(.*)"$', lambda m: m.group(1).replace('""', '"'), line) for line in source.splitlines()]
        text = "\n".join(line for line in lines if not re.match(r"\.[A-Za-z]", line))
        return words(re.sub(r"\\\((?:rs|aq|ga|ha|ti)|\\[-&]", lambda m: ESCAPES[m.group()], text))

    def says(self, page, *texts):
        whole = self.text(page)
        for text in texts:
            check(words(text) in whole, "%s does not say %r" % (page, words(text)))


def spelt(column):
    """Expands the options in the first column of a help text: -l,--long TEXT -> -l, --long."""
    return re.findall(r"(?<![\w-])-{1,2}[A-Za-z][\w-]*", column)


def rows(help_text):
    """Returns the columns of `spate help`: the name and its description, which may take several lines."""
    found = []
    for line in help_text.splitlines():
        row = re.match(r"  (\S.*?)(?:  +(\S.*))?$", line)
        if row:
            found.append([row.group(1), row.group(2) or ""])
        elif found and re.match(r" {20,}\S", line):
            found[-1][1] += " " + line.strip()
        elif not line:
            found.append(["", ""])
    return [row for row in found if row[0]]


def commands(manual):
    listed = [row for row in rows(run(SPATE, "help")) if re.fullmatch(r"[a-z][a-z-]*", row[0])]
    check(len(listed) > 30, "too few commands: %s" % listed)
    for command, summary in listed:
        manual.says("spate.1", "spate-%s(1) %s" % (command, summary))
        page = "spate-%s.1" % command
        manual.says(page, "spate-%s - %s" % (command, summary))
        if command == "help":
            continue
        text, explained = manual.text(page), run(SPATE, "help", command)
        for argument, meaning in rows(re.search(r"\n(Positionals|Options):.*?  --set.*?\n", explained, re.DOTALL).group()):
            if not argument.endswith("--help"):
                check(set(spelt(argument)) <= set(spelt(text)), "%s lacks %s" % (page, argument))
                check(words(meaning) in text, "%s does not say of %s: %s" % (page, argument, meaning))


def columns(manual):
    """Text that the help prints in two columns is a list on the page, where its lines may be wrapped."""
    with open(manual.folder + "/man1/spate-job.1", encoding="utf-8") as file:
        check('.TP\n.B "job up"\nmake it on all nodes' in file.read(), "spate-job.1 has no list of its actions")


def keys(manual):
    explained = json.loads(run(SPATE, "config", "explain", "--json"))
    check(len(explained) > 50, "too few keys")
    for key in explained:
        manual.says("spate.toml.5", "%s %s Allowed: %s Default: %s" % (key["key"], key["meaning"], key["allowed"], key["default"]))


def programs(manual):
    for program in (BIN + "/spated", BIN + "/spate-mount", SOURCE + "/packaging/spate-setup"):
        if not os.path.exists(program):
            continue
        page = os.path.basename(program) + ".8"
        for line in run(program, "--help").splitlines():
            line = re.sub(r"^(usage|spate-setup): ", "", line)
            for part in re.split(r" {2,}", line.strip()):
                manual.says(page, part)


def mount_options(manual):
    """The page explains each option that the program knows. The program prints them all when it gets an unknown one."""
    if not os.path.exists(BIN + "/spate-mount"):
        return
    told = subprocess.run([BIN + "/spate-mount", "-o", "nonsense", "a", "b"], capture_output=True, text=True, timeout=60).stderr
    known = re.search(r"there are (.*)", told).group(1).split(", ")
    check(len(known) > 20, told)
    said = set(re.findall(r"[a-z_]+", manual.text("spate-mount.8")))
    for option in known:
        check(option in said, "spate-mount.8 does not explain %s" % option)


def header(manual):
    with open(SOURCE + "/src/capi/spate.h", encoding="utf-8") as file:
        functions = re.findall(r"^SPATE_API .*?\b(spate_\w+)\(", file.read(), re.MULTILINE)
    check(len(functions) > 60, "too few functions")
    for function in functions:
        manual.says(function + ".3", function + "(")


def lint(manual):
    if shutil.which("man"):
        for file in manual.files():
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", file], capture_output=True, text=True, timeout=60, env=dict(os.environ, MANWIDTH="80"))
            check(done.returncode == 0 and not done.stderr, "%s: %s" % (file, done.stderr))
    if shutil.which("mandoc"):
        run("mandoc", "-Tlint", "-Wwarning", *manual.files())


def completed_by_fish(line):
    with tempfile.TemporaryDirectory(prefix="spate-test-") as home:  # fish creates folders here whatever it is told
        said = run("fish", "--no-config", "-c", "source %s/src/tools/spate.fish; complete -C '%s'" % (SOURCE, line), env=dict(os.environ, HOME=home))
    return [tuple(row.split("\t")) for row in said.splitlines()]


def completed_by_zsh(line):
    """Returns what the completion function would offer. A stand-in replaces the shell's own part."""
    script = """
compdef() { :; }
compadd() { while [[ $1 == -* ]]; do [[ $1 == -S ]] && shift; shift; done; print -rl -- "$@"; }
_describe() { print -rl -- "${(@P)2}"; }
_files() { :; }
source %s/src/tools/spate.zsh
words=(%s) CURRENT=$#words PREFIX=$words[-1]
_spate
""" % (SOURCE, line if not line.endswith(" ") else line + "''")
    return [tuple(row.split(":", 1)) for row in run("zsh", "-f", "-c", script).splitlines() if row]


def completion():
    os.environ["PATH"] = BIN + ":" + os.environ["PATH"]
    for line, offered in (("--fs /tmp setst", "setstripe"), ("--json --set a=b job stage-i", "stage-in"), ("--js", "--json"), ("--fs=/tmp ls --rec", "--recursive")):
        check(offered in run(SPATE, "complete", "--", *line.split()).split(), "nothing is offered after spate " + line)
    for shell, completed in (("fish", completed_by_fish), ("zsh", completed_by_zsh)):
        if not shutil.which(shell):
            continue
        check(completed("spate setst") == [("setstripe", "set the layout of a directory's new files, or make a new file with it")], shell + ": a command")
        found = dict(row for row in completed("spate ls --") if len(row) == 2)
        check(found.get("--recursive") == "sub-directories too", "%s: options: %s" % (shell, found))
        check([row[0] for row in completed("spate config explain meta.sy")] == ["meta.sync"], shell + ": a key")
        check(completed("spate nonsense ") == [], shell + ": no command")


def main():
    with tempfile.TemporaryDirectory(prefix="spate-test-") as folder:
        manual = Manual(folder)
        commands(manual)
        columns(manual)
        keys(manual)
        programs(manual)
        mount_options(manual)
        header(manual)
        lint(manual)
    completion()


main()
