"""Changes a snapshot in every way that its own user can, and back, until it is told to stop.

The arguments are the snapshot's directory and a file whose presence is the end. Each change is undone after
a moment, so that a launch finds the snapshot sometimes whole, sometimes not, and often one becoming the
other.
"""

import ctypes
import os
import random
import shutil
import sys
import time

SNAPSHOT, STOP = sys.argv[1:]
DEMO = os.path.join(SNAPSHOT, "demo")
SKILL = os.path.join(DEMO, "SKILL.md")
AT_FDCWD, EXCHANGE = -100, 2
libc = ctypes.CDLL(None, use_errno=True)

good = open(SKILL, "rb").read()
evil = good.replace(b"body", b"EVIL")
twin = SNAPSHOT + ".twin"
shutil.copytree(SNAPSHOT, twin)
for path, content in ((os.path.join(twin, "demo/SKILL.md"), evil), (os.path.join(twin, "demo/scripts/go"), b"#!/bin/sh\necho EVIL\n")):
    mode = os.stat(path).st_mode
    os.chmod(path, 0o644)
    open(path, "wb").write(content)
    os.chmod(path, mode)
os.chmod(twin, 0o555)


def pause():
    # A launch takes some tens of milliseconds: the change falls into each of its parts.
    time.sleep(random.choice((0, 0.0002, 0.001, 0.004, 0.02)))


def exchange(one, other):
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


# Descriptors opened before, through which modes and mounts are no hindrance.
os.chmod(SKILL, 0o644)
kept = os.open(SKILL, os.O_RDWR)
os.chmod(SKILL, 0o444)


def through_a_descriptor():
    os.pwrite(kept, evil, 0)
    pause()
    os.pwrite(kept, good, 0)


def truncated():
    os.ftruncate(kept, 0)
    pause()
    os.pwrite(kept, good, 0)


def grown():
    os.pwrite(kept, b"more\n", len(good))
    pause()
    os.ftruncate(kept, len(good))


def huge():
    os.ftruncate(kept, 1 << 40)
    pause()
    os.ftruncate(kept, len(good))


def modes():
    for path, mode, before in ((SKILL, 0o666, 0o444), (SKILL, 0, 0o444), (DEMO, 0o777, 0o555), (SNAPSHOT, 0o755, 0o555)):
        os.chmod(path, mode)
        pause()
        os.chmod(path, before)


def renamed_over():
    os.chmod(DEMO, 0o755)
    other = os.path.join(DEMO, "other")
    for content in (evil, good):
        with open(other, "wb") as file:
            file.write(content)
        os.chmod(other, 0o444)
        os.rename(other, SKILL)
        os.chmod(DEMO, 0o555)
        pause()
        os.chmod(DEMO, 0o755)
    os.chmod(DEMO, 0o555)
    global kept
    os.close(kept)
    os.chmod(SKILL, 0o644)
    kept = os.open(SKILL, os.O_RDWR)
    os.chmod(SKILL, 0o444)


def another_kind(make):
    def change():
        os.chmod(DEMO, 0o755)
        aside = SNAPSHOT + ".aside"
        os.rename(SKILL, aside)
        make()
        pause()
        os.rename(aside, SKILL) if not os.path.isdir(SKILL) else (os.rmdir(SKILL), os.rename(aside, SKILL))
        os.chmod(DEMO, 0o555)
    return change


def directory_swapped():
    exchange(SNAPSHOT, twin)
    pause()
    exchange(SNAPSHOT, twin)


def directory_away():
    os.rename(SNAPSHOT, SNAPSHOT + ".away")
    pause()
    os.rename(SNAPSHOT + ".away", SNAPSHOT)


def package_swapped():
    # A directory is moved only by who may write it: its entry `..` changes.
    writable = (SNAPSHOT, twin, DEMO, os.path.join(twin, "demo"))
    for path in writable:
        os.chmod(path, 0o755)
    for _ in range(2):
        exchange(DEMO, os.path.join(twin, "demo"))
        pause()
    for path in writable:
        os.chmod(path, 0o555)


changes = [
    through_a_descriptor,
    truncated,
    grown,
    huge,
    modes,
    renamed_over,
    another_kind(lambda: os.symlink("/etc/passwd", SKILL)),
    another_kind(lambda: os.mkfifo(SKILL, 0o444)),
    another_kind(lambda: os.mkdir(SKILL)),
    another_kind(lambda: None),
    directory_swapped,
    directory_away,
    package_swapped,
]
print("ready", flush=True)
while not os.path.exists(STOP):
    for change in changes:
        change()
        # Whole for a while, so that some launches find nothing amiss.
        time.sleep(random.choice((0, 0.001, 0.005, 0.03)))
