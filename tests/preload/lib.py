# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder that are written in python share. They run below `spate run`, on files of /spate."""
import os
import sys
import time


def writer(folder):
    """A function that makes files below `folder`: write(name, data) is the file's path."""
    def write(name, data=b"data"):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)
        return f"{folder}/{name}"
    return write


def raises(number, function, *arguments):
    """It fails, with this errno."""
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno == number, (error, number)
        return
    raise AssertionError("did not fail")


def child_status(child):
    """Of a child that ends by itself: its exit code, or the negative of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_tests(functions, folder):
    """Those of `functions` (globals()) that are tests, in a new folder, or those that the command line names; says how long each took."""
    os.makedirs(folder)
    for name in sys.argv[1:] or sorted(name for name in functions if name.startswith("test_")):
        began = time.monotonic()
        functions[name]()
        print(f"{name} {time.monotonic() - began:.2f}", flush=True)
