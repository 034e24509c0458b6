"""Becomes the program that its arguments name, unable to make a mount namespace by unshare(2).

That is what some systems are like to all but the programs that they name: this one's helper cannot mount
anything, and bubblewrap, which makes its namespaces by clone(2), can.
"""

import ctypes
import os
import struct
import sys

SET_SECCOMP, FILTER, NO_NEW_PRIVS = 22, 2, 38
NUMBER, FIRST_ARGUMENT = 0, 16  # in `struct seccomp_data`
LOAD, EQUALS, HAS_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
UNSHARE = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
NEWNS, EPERM, REFUSE, ALLOW = 0x20000, 1, 0x50000, 0x7FFF0000

instructions = [
    (LOAD, 0, 0, NUMBER),
    (EQUALS, 0, 3, UNSHARE),
    (LOAD, 0, 0, FIRST_ARGUMENT),
    (HAS_BIT, 0, 1, NEWNS),
    (RETURN, 0, 0, REFUSE | EPERM),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, FILTER, program, 0, 0)):
    if libc.prctl(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.argv[1], sys.argv[1:])
