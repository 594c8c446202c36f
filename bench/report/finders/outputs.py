"""What each finder prints, as lists of paths (bytes), one list per set."""

import base64
import json
import re


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


def counts(data):
    """Of a scan of ours: how it ended, and how many there were."""
    summary = json.loads(data)
    return {name: summary[name] for name in ("state", "files", "new", "same", "reads", "bytes_read")}


def lines_of_counts(data):
    """`files 7`, a line for each."""
    return {name: int(value) for name, value in (line.split() for line in data.decode().splitlines())}


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


def dupes_text(data):
    """Names behind four columns; those of a file that was named before have a mark there."""
    sets = []
    for line in data.split(b"\n"):
        if line.startswith(b"    ") and sets:
            sets[-1].append(_unescaped(line[4:]))
        elif line and not line.startswith(b" "):
            sets.append([])
    return [found for found in sets if found]


def _unescaped(name):
    """As `printf %b` does it."""
    if b"\\" not in name:
        return name
    short = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\"}

    def plain(match):
        code = match.group(1)
        return short.get(code) or bytes([int(code[1:], 16)])

    return re.sub(rb"\\(x[0-9a-f]{2}|[ntr\\])", plain, name)
