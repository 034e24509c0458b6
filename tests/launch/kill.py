"""Starts launches one after the other, kills a process of each at a random moment, and prints what is left.

The arguments are how many, where the leases are, and what to start, whose command must leave a `sleep 1000`
behind in a session of its own. Every process that a launch starts stays a descendant of this one, whoever
its parent was, so that none can hide. A line of JSON for each launch tells whom it killed, the program's own
status, the processes that did not end, and the leases that are still locked.
"""

import ctypes
import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time

COUNT, LEASES, COMMAND = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
SET_CHILD_SUBREAPER, OFD_SETLK = 36, 37
# The last is the program again, by a signal that it may answer.
ROLES = ["program", "helper", "bubblewrap", "inner", "command", "grandchild", "terminated"]
if ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
    sys.exit("prctl")


def role(number, arguments):
    """What a process is in a launch: `other` is one that only says what it can do, or is yet to become one."""
    if arguments[1:2] == ["__skillfreeze-helper"]:
        return "helper"
    if arguments[1:2] == ["__skillfreeze-inner"]:
        return "inner"
    if arguments[0].endswith("bwrap"):
        return "bubblewrap" if arguments[1:2] == ["--args"] else "other"
    if arguments == COMMAND:
        return "program" if number == program.pid else "other"
    return "grandchild" if arguments[-2:] == ["sleep", "1000"] else "command"


def descendants():
    """The processes below this one, by number, and what each is."""
    parents, names = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
            with open(f"/proc/{name}/cmdline", errors="replace") as line:
                arguments = line.read().split("\0")[:-1]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            parents[int(name)] = int(fields[1])
            names[int(name)] = arguments
    below = {os.getpid()}
    while True:
        more = {number for number, parent in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
    return {number: role(number, names[number]) for number in below - {os.getpid()} if names[number]}


def locked():
    """The leases that nobody else can take."""
    found = []
    for above, _, names in os.walk(LEASES):
        for name in names:
            with open(os.path.join(above, name), "r+b") as lease:
                try:
                    # `struct flock`: kind, whence, start, length, process.
                    fcntl.fcntl(lease, OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
                except OSError:
                    found.append(name)
    return found


for turn in range(COUNT):
    program = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    aim, end = ROLES[turn % len(ROLES)], time.monotonic() + 20
    there = {}
    # The grandchild is the last to come.
    while aim != "terminated" and aim not in there.values() and "grandchild" not in there.values() and time.monotonic() < end:
        there = descendants()
    # A short-lived process was missed: another will do.
    others = sorted(set(there.values()) - {"other"})
    killed = aim if aim == "terminated" or aim in others else random.choice(others)
    time.sleep(random.choice((0, random.uniform(0, 0.004), random.uniform(0, 0.05))))
    # bubblewrap is two processes; any other may have just forked what is yet to become another.
    numbers = [number for number, what in there.items() if what == killed]
    try:
        if killed == "terminated":
            program.terminate()
        else:
            os.kill(random.choice(numbers) if killed == "bubblewrap" else min(numbers), signal.SIGKILL)
        if killed == "grandchild":
            # Nobody has reason to end yet, so that the lease is held.
            time.sleep(0.02)
            if not locked():
                sys.exit("the lease is not locked")
            program.terminate()
    except ProcessLookupError:
        # bubblewrap's first child may have ended meanwhile: there is nothing to see yet.
        killed = "none"
        program.kill()
    # Everything ends by itself now, for the command would run for longer than anybody waits here.
    status, end = None, time.monotonic() + 20
    while time.monotonic() < end:
        try:
            number, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if number == program.pid:
            status = os.waitstatus_to_exitcode(ended)
            program.returncode = status
        if number == 0:
            time.sleep(0.002)
    left = descendants()
    print(json.dumps({"killed": killed, "status": status, "left": sorted(left.values()), "locked": locked()}), flush=True)
    if left:
        sys.exit("something is left")
