"""What is measured on which tree, and who takes part.

`a` is a search of tree a with all of it in memory; what is behind a dash is something else.
"""

from .peers import FIND, OURS, WALK
from .trees import TREES

COLD, FIRST_SCAN, RESCAN, REPORTING = "cold", "scan", "rescan", "report"
# What each of them is, in a few words.
CAPTIONS = {
    "": "warm cache",
    FIRST_SCAN: "first scan into a database",
    RESCAN: "scan of what has not changed",
    REPORTING: "report of all sets, from the database",
    COLD: "cold cache",
}
# On each tree, in the order of a run: the caches are dropped last.
ON = {
    "a": ("", FIRST_SCAN, RESCAN, COLD),
    "b": ("", FIRST_SCAN, RESCAN, REPORTING, COLD),
    "c": ("",),
    "d": ("",),
    "e": ("", FIRST_SCAN),
}
ALL = [f"{tree}-{kind}".rstrip("-") for tree, kinds in ON.items() for kind in kinds]
# Enough where it is memory that is asked for, and a round takes long.
FULL_ROUNDS_OF, QUICK_ROUNDS_OF = {"e-scan": 3}, {"e-scan": 1}


def tree_of(workload):
    return workload.partition("-")[0]


def kind_of(workload):
    return workload.partition("-")[2]


def is_cold(workload):
    return kind_of(workload) == COLD


def is_scan(workload):
    """All that is about a database."""
    return kind_of(workload) in (FIRST_SCAN, RESCAN, REPORTING)


def is_warm_search(workload):
    return kind_of(workload) == ""


def has_peers(workload):
    """Nobody else makes a first scan or reports from one."""
    return kind_of(workload) in ("", COLD, RESCAN)


def caption(workload):
    return f"{TREES[tree_of(workload)]}, {CAPTIONS[kind_of(workload)]}"


def takes_part(workload, finder):
    kind = kind_of(workload)
    if finder.name == OURS:
        return True
    if finder.name == FIND.name:
        return kind == FIRST_SCAN
    if finder.name == WALK.name:
        return kind == RESCAN
    # With a cache that is empty, a finder is the one without.
    return kind == RESCAN if finder.cache else kind in ("", COLD)


def of(trees, names=None):
    """Those on these trees, or those of them that are named. Raises ValueError."""
    unknown = set(names or []) - set(ALL)
    if unknown:
        raise ValueError(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    return [w for w in ALL if tree_of(w) in trees and (not names or w in names)]
