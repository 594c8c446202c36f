"""What each finder prints, as lists of paths (bytes), one list per set."""

import base64
import json


def blocks(data, end=b"\n"):
    """A path and `end`, one more `end` behind each set: fdupes, and all who print as it does."""
    sets = []
    for block in data.split(end + end):
        paths = [path for path in block.split(end) if path]
        if paths:
            sets.append(paths)
    return sets


def nul_blocks(data):
    return blocks(data, b"\0")


def dupes_json(data):
    """A path is a string, or an object where it is no UTF-8."""

    def path(value):
        return value.encode() if isinstance(value, str) else base64.b64decode(value["bytes"])

    return [[path(p) for p in group["paths"]] for group in json.loads(data)["groups"]]


def rdfind(data):
    """`duptype id depth size device inode priority name`; a first occurrence begins a set."""
    sets = []
    for line in data.splitlines():
        if line.startswith(b"#"):
            continue
        kind, *_, path = line.split(b" ", 7)
        if kind == b"DUPTYPE_FIRST_OCCURRENCE":
            sets.append([])
        sets[-1].append(path)
    return sets


def rmlint(data):
    """A list of files between a header and a footer; an original begins a set."""
    sets = []
    for entry in json.loads(data):
        if entry.get("type") != "duplicate_file":
            continue
        if entry["is_original"]:
            sets.append([])
        sets[-1].append(entry["path"].encode())
    return sets


def czkawka(data):
    """By size, then a list of sets, each a list of files."""
    if not data.strip():
        return []
    sizes = json.loads(data)
    return [[file["path"].encode() for file in group] for groups in sizes.values() for group in groups]
