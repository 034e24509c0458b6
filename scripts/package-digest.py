#!/usr/bin/env python3
"""Prints the digest of each package of a snapshot directory, worked out from its files alone.

usage: package-digest.py SNAPSHOT

A line a package: `sha256:<hex>  <id>`, sorted by id. Uses nothing but Python's standard library, and
of the snapshot nothing but its packages' files; the manifest should say the same.
"""
import hashlib, os, stat, sys

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
top = os.fsencode(sys.argv[1])
for package in sorted(entry.name for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False)):
    root, lines = os.path.join(top, package), []
    for directory, _, names in os.walk(root):
        for path in (os.path.join(directory, name) for name in names):
            with open(path, "rb") as file:
                content, mode = file.read(), os.stat(file.fileno()).st_mode
            bits = b"100755" if mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH) else b"100644"
            digest = hashlib.sha256(content).hexdigest().encode()
            lines.append((os.path.relpath(path, root), b"%s %d %s " % (bits, len(content), digest)))
    listing = b"skillfreeze package v1\n" + b"".join(rest + path + b"\n" for path, rest in sorted(lines))
    print("sha256:" + hashlib.sha256(listing).hexdigest(), os.fsdecode(package), sep="  ")
