# SPDX-License-Identifier: Apache-2.0
"""Code that the Python tests of this folder share. They run below `spate run`, on files of /spate."""
import os
import sys
import time


def writer(folder):
    """Returns a function write(name, data) that creates a file below `folder` and returns its path."""
    def write(name, data=b"data"):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)
        return f"{folder}/{name}"
    return write


def raises(number, function, *arguments):
    """Checks that the call fails with this errno."""
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno == number, (error, number)
        return
    raise AssertionError("did not fail")


def child_status(child):
    """Waits for a child that ends by itself. Returns its exit code, or the negative number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_tests(functions, folder):
    """Runs the tests among `functions` (globals()) in a new folder, or only those that the command line names. Prints
    how long each took."""
    os.makedirs(folder)
    for name in sys.argv[1:] or sorted(name for name in functions if name.startswith("test_")):
        began = time.monotonic()
        functions[name]()
        print(f"{name} {time.monotonic() - began:.2f}", flush=True)
