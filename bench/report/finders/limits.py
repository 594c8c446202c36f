"""The bars of `dupes`. How one is judged is in `report/bars.py`."""

from ..bars import ABSOLUTE, Bar
from .peers import FIND, OURS, WALK
from .workloads import tree_of


def yadf(name):
    return name == "yadf"


def find(name):
    return name == FIND.name


def walk(name):
    return name == WALK.name


BARS = [
    Bar("a", "seconds", 0.5, ours=OURS),
    Bar("b", "seconds", 0.6, ours=OURS),
    Bar("c", "seconds", 1.0, ours=OURS),
    Bar("d", "seconds", 0.8, ours=OURS),
    Bar("e", "seconds", 0.5, ours=OURS),
    Bar("e", "peak_mb", 0.6, ours=OURS, peers=yadf, label="yadf"),
    # Only of the whole tree: see `of`.
    Bar("e", "peak_mb", 150, ours=OURS, kind=ABSOLUTE, label="limit"),
    Bar("a-cold", "seconds", 0.8, ours=OURS),
    Bar("b-cold", "seconds", 0.8, ours=OURS),
    # What remembering costs: the same search without it.
    *(Bar(f"{tree}-scan", "seconds", 1.5, ours=OURS, peers=find, label="find", against="reference") for tree in "abe"),
    Bar("e-scan", "peak_mb", 250, ours=OURS, kind=ABSOLUTE, label="limit"),
    # What it brings: all who take part there have a cache, too; and less than a walk nobody can do.
    Bar("a-rescan", "seconds", 0.25, ours=OURS),
    Bar("b-rescan", "seconds", 0.25, ours=OURS),
    Bar("a-rescan", "seconds", 2.5, ours=OURS, peers=walk, label="walk", against="reference"),
    Bar("b-rescan", "seconds", 2.5, ours=OURS, peers=walk, label="walk", against="reference"),
    Bar("b-report", "ms", 50, ours=OURS, kind=ABSOLUTE, label="limit"),
]


def of(workloads, scales):
    """Those that have a meaning in this run: a smaller tree has no limit of its own."""
    whole = [w for w in workloads if scales[tree_of(w)] == 1]
    return [bar for bar in BARS if bar.workload in (whole if bar.kind == ABSOLUTE else workloads)]
