"""The bars of `dupes find`. How one is judged is in `report/bars.py`."""

from ..bars import ABSOLUTE, Bar
from .peers import OURS
from .runs import COLD


def yadf(name):
    return name == "yadf"


BARS = [
    Bar("a", "seconds", 0.5, ours=OURS),
    Bar("b", "seconds", 0.6, ours=OURS),
    Bar("c", "seconds", 1.0, ours=OURS),
    Bar("d", "seconds", 0.8, ours=OURS),
    Bar("e", "seconds", 0.5, ours=OURS),
    Bar("e", "peak_mb", 0.6, ours=OURS, peers=yadf, label="yadf"),
    # Only of the whole tree: see `of`.
    Bar("e", "peak_mb", 150, ours=OURS, kind=ABSOLUTE, label="limit"),
    Bar("a" + COLD, "seconds", 0.8, ours=OURS),
    Bar("b" + COLD, "seconds", 0.8, ours=OURS),
]


def of(workloads, scales):
    """Those that have a meaning in this run: a smaller tree has no limit of its own."""
    return [bar for bar in BARS if bar.workload in workloads and (bar.kind != ABSOLUTE or scales[bar.workload] == 1)]
