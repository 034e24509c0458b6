"""What the scripts that attack a sandbox have in common; each is run after this one.

`OK` means that an attempt succeeded; anything else is the name of the error that the kernel gave.
"""

import ctypes
import errno
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    """Calls a function of the C library, which Python's own module lacks."""
    arguments = [os.fsencode(a) if isinstance(a, str) else a for a in arguments]
    if getattr(libc, function)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), function)


def attempt(name, function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        print(f"{name}: {errno.errorcode.get(error.errno, error.errno)}")
    else:
        print(f"{name}: OK")


def in_child(function, *arguments):
    """Namespaces change for good, so a child enters them."""
    child = os.fork()
    if child == 0:
        try:
            function(*arguments)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(status, "in the child")
