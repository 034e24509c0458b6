"""Validates lines of `<schema file>\t<JSON>` from standard input; prints and counts what does not fit."""

import json
import pathlib
import sys

import jsonschema

here = pathlib.Path(sys.argv[1]).resolve()
common = json.loads((here / "common.json").read_text())["$defs"]


def load(path):
    """A schema with the shared definitions in it: versions of the library resolve files in different ways."""
    return {**json.loads(path.read_text().replace("common.json#", "#")), "$defs": json.loads(json.dumps(common).replace("common.json#", "#"))}


store = {path.name: load(path) for path in here.glob("*.v1.json")}
for schema in store.values():
    jsonschema.Draft202012Validator.check_schema(schema)
faults = 0
for line in sys.stdin:
    name, _, text = line.rstrip("\n").partition("\t")
    if name not in store:
        faults += 1
        print(f"there is no schema {name} for {text[:200]}")
        continue
    for error in jsonschema.Draft202012Validator(store[name]).iter_errors(json.loads(text)):
        faults += 1
        print(f"{name}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
sys.exit(1 if faults else 0)
