#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` installs everything: binaries, libraries, header, pkg-config, CMake package, systemd unit, and the
Python package where it was built.
  install.py BUILD [PYTHON]"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
from cluster import check, free_ports

BUILD = sys.argv[1]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(Spate 0.1 REQUIRED)
find_package(Threads REQUIRED)
add_executable(user %s/calls.c)
target_link_libraries(user PRIVATE spate::spate Threads::Threads)
""" % HERE


def run(*args, env=None, cwd=None):
    done = subprocess.run(args, env=env, cwd=cwd, capture_output=True, timeout=300)
    check(done.returncode == 0, "%s: exit %d\n%s%s" % (" ".join(args), done.returncode, done.stdout.decode(), done.stderr.decode()))
    return done.stdout.decode()


def find(root, name):
    found = [os.path.join(d, name) for d, _, files in os.walk(root) if name in files]
    check(len(found) == 1, "%s is there %d times" % (name, len(found)))
    return found[0]


def unit(root, prefix):
    """Checks a unit. `root` was installed as `prefix`, which the units name."""
    text = open(find(root, "spated@.service"), encoding="utf-8").read()
    start = [line for line in text.splitlines() if line.startswith("ExecStart=")][0]
    check(start.split()[0] == "ExecStart=" + prefix + "/bin/spated" and "--server %i" in start, start)
    with open(find(root, "spate-export@.service"), encoding="utf-8") as file:
        check("\nExecStart=%s/bin/spate export" % prefix in file.read(), "the unit of an export starts another program")
    if shutil.which("systemd-analyze"):
        # The check looks for the binary at the place in the unit, so create one there for the moment.
        here = root + "/spated@1.service"
        with open(here, "w", encoding="utf-8") as file:
            file.write(text.replace(start.split()[0], "ExecStart=" + root + "/bin/spated"))
        run("systemd-analyze", "verify", "--man=no", here)
        os.remove(here)
    check("Type=notify" in text and "@" not in text.replace("spated@", ""), "the unit is not filled in")


def visible(library):
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    names = [name.split("@")[0] for name in names]
    strange = [name for name in names if not name.startswith("spate_") and name != "SPATE_1"]
    check(len(names) > 60 and not strange, "visible in libspate: %s" % strange)
    with open(HERE + "/../../packaging/debian/libspate1.symbols", encoding="utf-8") as file:
        listed = {line.split("@")[0].strip() for line in file.readlines()[1:]}
    found = {name for name in names if name.startswith("spate_")}
    check(listed == found, "packaging/debian/libspate1.symbols: gone from the library, which breaks programs: %s; not listed: %s" % (listed - found, found - listed))


def mpi_programs(spate, installed, root, env):
    """Checks that the installed `spate run --mpi` has a library for each MPI for which there is one in the build folder."""
    for mpi in ("mpich", "openmpi"):
        if not os.path.exists(BUILD + "/lib/libspate-mpi-%s.so" % mpi) or not shutil.which("mpicc." + mpi) or not shutil.which("mpiexec." + mpi):
            continue
        find(installed, "libspate-mpi-%s.so" % mpi)
        program = root + "/starts." + mpi
        run("mpicc." + mpi, "-o", program, HERE + "/../mpi/starts.c")
        run(spate, "run", "--mpi", "--", "mpiexec." + mpi, "-n", "1", program, "/spate/by-" + mpi,
            env=dict(env, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        check("by-" + mpi in run(spate, "ls", "spate:/", env=env).split(), "%s: the program wrote elsewhere" % mpi)


def main(root):
    prefix = root + "/usr"
    run("cmake", "--install", BUILD, "--prefix", prefix)
    moved = root + "/moved"
    os.rename(prefix, moved)  # an installed tree may be moved
    for name in ("bin/spate", "bin/spated", "include/spate.h", "share/man/man1/spate-ls.1", "share/man/man3/spate_open.3", "share/man/man5/spate.toml.5"):
        check(os.path.exists(moved + "/" + name), name + " is not installed")
    unit(moved, prefix)
    library = os.path.dirname(find(moved, "libspate.so.1.0.1"))
    visible(library + "/libspate.so")
    env = dict(os.environ, LD_LIBRARY_PATH=library, HOME=root, XDG_STATE_HOME=root + "/state", XDG_DATA_HOME=root + "/data")
    env["PKG_CONFIG_PATH"] = os.path.dirname(find(moved, "spate.pc"))
    flags = run("pkg-config", "--cflags", "--libs", "spate", env=env).split()
    run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", HERE + "/calls.c", *flags, "-pthread", "-o", root + "/by-pkg-config")
    os.mkdir(root + "/project")
    with open(root + "/project/CMakeLists.txt", "w", encoding="utf-8") as file:
        file.write(PROJECT)
    run("cmake", "-S", root + "/project", "-B", root + "/project/build", "-DCMAKE_PREFIX_PATH=" + moved)
    run("cmake", "--build", root + "/project/build")
    spate = find(moved + "/bin", "spate")
    run(spate, "up", "-q", "--dir", root + "/fs", "--io", "2", "--port", str(free_ports(3)), env=env)
    try:
        env["SPATE_FS"] = root + "/fs"
        for program in ("/by-pkg-config", "/project/build/user"):
            check(run(root + program, env=env).strip() == "0.1.0", "another version")
        mpi_programs(spate, moved, root, env)
        for python in sys.argv[2:]:
            env["PYTHONPATH"] = moved + "/lib/python3/dist-packages"
            said = run(python, "-B", "-c", "import spate; print(spate.__file__, spate.connect().listdir('/'))", env=env)
            check(said.startswith(env["PYTHONPATH"] + "/spate/__init__.py ["), "the Python package: " + said)
            found = run(python, "-B", "-c", "import importlib.metadata as m; print([e.value for e in m.entry_points(group='fsspec.specs') if e.name == 'spate'])", env=env)
            check("spate.fsspec:SpateFileSystem" in found, "fsspec does not find spate://: " + found)
    finally:
        run(spate, "down", "-q", "--dir", root + "/fs", env=env)


folder = tempfile.mkdtemp(prefix="spate-install-", dir="/dev/shm")
try:
    main(folder)
finally:
    shutil.rmtree(folder)
