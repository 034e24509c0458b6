"""Becomes the program that its arguments name, with some system calls answered by a filter instead.

The first argument names them: `NUMBER=ERRNO`, or `NUMBER/BITS=ERRNO` for calls whose first argument has one
of these bits, separated by commas. 0 stands for an answer that says the call was made.
"""

import ctypes
import os
import struct
import sys

SET_SECCOMP, FILTER, NO_NEW_PRIVS = 22, 2, 38
NUMBER, FIRST_ARGUMENT = 0, 16  # in `struct seccomp_data`
LOAD, EQUALS, HAS_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
REFUSE, ALLOW = 0x50000, 0x7FFF0000

instructions = []
for rule in sys.argv[1].split(","):
    call, errno = rule.split("=")
    number, _, bits = call.partition("/")
    answer = (RETURN, 0, 0, REFUSE | int(errno))
    body = [answer]
    if bits:
        body = [(LOAD, 0, 0, FIRST_ARGUMENT), (HAS_BIT, 0, 1, int(bits, 0)), answer, (RETURN, 0, 0, ALLOW)]
    instructions += [(LOAD, 0, 0, NUMBER), (EQUALS, 0, len(body), int(number)), *body]
instructions.append((RETURN, 0, 0, ALLOW))
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in instructions))
program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
for arguments in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, FILTER, program, 0, 0)):
    if libc.prctl(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
os.execv(sys.argv[2], sys.argv[2:])
