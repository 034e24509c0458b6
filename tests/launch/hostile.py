"""Changes a snapshot in every way that its own user can, and back, until it is told to stop.

The arguments are the snapshot's directory and a file whose presence is the end. Each change is undone after
a moment, so that a launch finds the snapshot sometimes whole, sometimes not, and often one becoming the
other. At the end it prints, as JSON, how often each change was there to be seen by its path.
"""

import collections
import ctypes
import json
import mmap
import os
import random
import shutil
import sys
import time

SNAPSHOT, STOP = sys.argv[1:]
DEMO = os.path.join(SNAPSHOT, "demo")
SKILL, MANIFEST = os.path.join(DEMO, "SKILL.md"), os.path.join(SNAPSHOT, ".snapshot.json")
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


def look():
    """What a launch would find: types and modes of everything, and the bytes of what is not too large."""
    found = []
    for path in (SNAPSHOT, DEMO, SKILL, MANIFEST):
        try:
            there = os.lstat(path)
            found.append((there.st_mode, there.st_size))
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            found.append(os.listdir(file) if os.path.isdir(path) else os.read(file, 4096))
            os.close(file)
        except OSError as error:
            found.append(error.errno)
    return found


whole, seen, now = look(), collections.Counter(), None


def pause():
    if look() != whole:
        seen[now] += 1
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


def through_a_mapping():
    with mmap.mmap(kept, len(good)) as mapping:
        mapping[:] = evil
        pause()
        mapping[:] = good


def through_a_hard_link():
    link = SNAPSHOT + ".link"
    os.link(SKILL, link)
    for content in (evil, good):
        os.chmod(link, 0o644)
        with open(link, "r+b") as file:
            file.write(content)
        os.chmod(link, 0o444)
        pause()
    os.unlink(link)


def with_a_hole():
    os.ftruncate(kept, 0)
    os.ftruncate(kept, len(good))
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


def another_manifest():
    before = open(MANIFEST, "rb").read()
    for content in (before.replace(b"demo", b"evil"), before):
        os.chmod(MANIFEST, 0o644)
        with open(MANIFEST, "wb") as file:
            file.write(content)
        os.chmod(MANIFEST, 0o444)
        pause()


def one_more():
    os.chmod(DEMO, 0o755)
    more = os.path.join(DEMO, "more")
    open(more, "w").close()
    os.chmod(DEMO, 0o555)
    pause()
    os.chmod(DEMO, 0o755)
    os.unlink(more)
    os.chmod(DEMO, 0o555)


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


def another_kind(name, make):
    def change():
        os.chmod(DEMO, 0o755)
        aside = SNAPSHOT + ".aside"
        os.rename(SKILL, aside)
        make()
        pause()
        os.rename(aside, SKILL) if not os.path.isdir(SKILL) else (os.rmdir(SKILL), os.rename(aside, SKILL))
        os.chmod(DEMO, 0o555)
    change.__name__ = name
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
    through_a_mapping,
    through_a_hard_link,
    with_a_hole,
    truncated,
    grown,
    huge,
    modes,
    another_manifest,
    one_more,
    renamed_over,
    another_kind("a_link", lambda: os.symlink("/etc/passwd", SKILL)),
    another_kind("a_pipe", lambda: os.mkfifo(SKILL, 0o444)),
    another_kind("a_directory", lambda: os.mkdir(SKILL)),
    another_kind("missing", lambda: None),
    directory_swapped,
    directory_away,
    package_swapped,
]
print("ready", flush=True)
while not os.path.exists(STOP):
    for change in changes:
        now = change.__name__
        change()
        # Whole for a while, so that some launches find nothing amiss.
        time.sleep(random.choice((0, 0.001, 0.005, 0.03)))
print(json.dumps({change.__name__: seen[change.__name__] for change in changes}))
