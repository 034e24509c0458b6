"""Runs a command in a pseudo-terminal of its own.

The first argument is JSON: pairs of what is waited for and what is then typed. Prints all that was
seen, and ends with the command's status.
"""

import json
import os
import pty
import select
import sys
import time

steps = json.loads(sys.argv[1])
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[2], sys.argv[2:])

seen = b""
unread = b""
deadline = time.monotonic() + 30


def read():
    global seen, unread
    if not select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0]:
        sys.exit(f"nothing happens: {seen!r}")
    try:
        data = os.read(terminal, 4096)
    except OSError:  # everybody has closed it
        data = b""
    seen += data
    unread += data
    return data


for expected, typed in steps:
    while expected.encode() not in unread:
        if not read():
            sys.exit(f"`{expected}` does not come: {seen!r}")
    unread = unread.split(expected.encode(), 1)[1]
    os.write(terminal, typed.encode())
while read():
    pass
sys.stdout.write(seen.decode().replace("\r\n", "\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
