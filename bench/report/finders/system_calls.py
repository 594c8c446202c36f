"""System calls per file, counted by strace."""

import shutil
from collections import Counter

from ..rounds import RunFailed
from .processes import finish

PATIENCE_SECONDS = 600
_SHOWN = 6


def why_not():
    return None if shutil.which("strace") else "no strace on the path"


def count(finder, program, tree, scratch):
    """{call: how often}, of all threads. Raises TooSlow, RunFailed."""
    table = scratch / "calls"
    result = scratch / "result"
    for left in (table, result):
        left.unlink(missing_ok=True)
    command, _ = finder.arguments(program, tree.files, result)
    code, _, said = finish(["strace", "-f", "-c", "-o", table, *command], PATIENCE_SECONDS, cwd=scratch)
    calls = parse(table.read_text()) if table.exists() else {}
    if code not in finder.codes or not calls:
        raise RunFailed(f"exit code {code}: {' '.join(said.split())[:200]}")
    return calls


def parse(text):
    """`% time, seconds, usecs/call, calls, errors or nothing, name`, between rulers."""
    calls = Counter()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) in (5, 6) and fields[3].isdigit() and fields[-1] != "total":
            calls[fields[-1]] += int(fields[3])
    return calls


def most(per_file):
    """The most frequent ones; `per_file` is in that order."""
    return dict(list(per_file.items())[:_SHOWN])


def text(calls):
    return ", ".join(f"{call} {n:.2f}" for call, n in calls.items())


def line(name, per_file):
    return f"system calls per file, {name} {sum(per_file.values()):.2f}: {text(most(per_file))}"
