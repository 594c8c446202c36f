"""What is kept of a results file of `bench/dupes`, and when it may be published."""

from ..record import RUNS, condense_shared, digits, without_paths
from . import system_calls
from .peers import OURS, PEERS
from .trees import TREES
from .workloads import ALL, FULL_ROUNDS_OF, is_cold, is_scan, is_warm_search, tree_of

ROUNDS_TO_PUBLISH = 5


def condense(document):
    shared = condense_shared(document)
    workloads = _workloads(shared)
    return shared | {
        # In the file they are those of the last tree, and it may have been the cold one.
        "rounds": _rounds(shared, [w for w in workloads if is_warm_search(w)]),
        "cold_rounds": _rounds(shared, [w for w in workloads if is_cold(w)]),
        "scan_rounds": _rounds(shared, [w for w in workloads if is_scan(w) and w not in FULL_ROUNDS_OF]),
        "trees": document["trees"],
        "system_calls_per_file": {
            contender: {
                "all": digits(sum(calls.values())),
                "most": {call: digits(n) for call, n in system_calls.most(calls).items()},
            }
            for contender, calls in document["system_calls_per_file"].items()
        },
        "left_out": [without_paths(line) for line in document["left_out"]] + _not_asked(document),
    }


def _workloads(record):
    """Where everybody failed there are no figures."""
    return list(dict.fromkeys([*record["results"], *(pair.split()[0] for pair in record["failures"])]))


def _rounds(record, workloads):
    """Ours are never cut for being slow: theirs is the number of rounds."""
    ours = [record["results"].get(workload, {}).get(OURS) for workload in workloads]
    return min((next(iter(figures.values()))[RUNS] for figures in ours if figures), default=0)


def _not_asked(document):
    """A choice of peers must not look like all of them."""
    named = {line.split()[0] for line in document["left_out"]} | document["contenders"].keys()
    return [f"{peer.name} left out: not asked" for peer in PEERS if peer.name not in named]


def why_trial(record):
    """What keeps a run from being published; nothing of a full one."""
    reasons = ["--quick"] if record["quick"] else []
    missing = [tree for tree in TREES if tree not in record["trees"]]
    if missing:
        reasons.append(f"no tree {', '.join(missing)}")
    scaled = [tree for tree, made in record["trees"].items() if made["scale"] != 1]
    if scaled:
        reasons.append(f"not the size of the bars: tree {', '.join(scaled)}")
    here = _workloads(record)
    left_out = [w for w in ALL if tree_of(w) not in missing and w not in here]
    warm = [tree_of(w) for w in left_out if is_cold(w)]
    if warm:
        reasons.append(f"no cold cache: tree {', '.join(warm)}")
    if others := [w for w in left_out if not is_cold(w)]:
        reasons.append(f"no {', '.join(others)}")
    rounds = {"warm": record["rounds"], "scan": record["scan_rounds"]}
    if not any(map(is_scan, here)):
        del rounds["scan"]
    few = [f"{n} {kind} rounds instead of {ROUNDS_TO_PUBLISH}" for kind, n in rounds.items() if n < ROUNDS_TO_PUBLISH]
    return reasons + few
