"""The blocks of figures in the document about `dupes`, made from the record of one run."""

from .. import run_facts, scorecard
from ..markdown_tables import medians, ranked, styled
from ..numbers import number
from ..record import MEDIAN
from . import agreement, system_calls
from .peers import OURS
from .record import why_trial
from .trees import TREES
from .workloads import ALL, RESCAN, caption, has_peers, is_cold, is_scan, kind_of, tree_of

TABLES_INTRODUCTION = (
    "Written by `bench/document`. Medians with min..max over the rounds, of the whole process; `switches`: how "
    "often it waited. Who had another result has no figures. What the trees and the names are: "
    "[bench/README.md](../../bench/README.md#duplicate-finders)."
)
# The tree with the most files.
MEMORY_TREE = "e"
COLUMNS = {"seconds": "seconds", "peak_mb": "peak MB", "switches": "switches"}


def blocks(record):
    """{name: Markdown}, everything that a document can ask for."""
    made = {
        "headline": headline(record),
        "run": run(record),
        "trees": trees(record),
        "agreement": agreements(record),
        "memory": memory(record),
        "scans": scans(record),
        "database": database(record),
        "calls": calls(record),
        "left-out": left_out(record),
        "ahead": scorecard.ahead(record, rivalries(record)),
    }
    made |= {f"tree-{tree}": figures_on(record, tree) for tree in TREES} | scorecard.blocks(record)
    made |= {f"rescan-{tree_of(w)}": rescan(record, w) for w in ALL if kind_of(w) == RESCAN}
    return {name: "\n".join(lines) for name, lines in made.items()}


# ------------------------------------------------------------ about the run


def headline(record):
    yield from run_facts.trial_above_headline(why_trial(record))
    yield f"| seconds | files | {OURS} | best peer | ours ÷ best |"
    yield "|---|---|---|---|---|"
    for workload, contenders in record["results"].items():
        if not has_peers(workload):
            continue
        files = record["trees"][tree_of(workload)]["files"]
        yield f"| {caption(workload)} | {files:,} | " + " | ".join(_against_best(record, contenders)) + " |"
    yield ""
    yield (
        f"{run_facts.machine(record)}, {record['machine']['file_system']}; medians of {_rounds(record)}; "
        f"{run_facts.date(record)}."
    )


def _against_best(record, contenders):
    """(ours, best peer, their ratio); a peer with another result has no figure."""
    seconds = {contender: figures["seconds"][MEDIAN] for contender, figures in contenders.items()}
    ours = seconds.get(OURS)
    peers = [c for c in seconds if record["contenders"][c] == "peer"]
    best = min(peers, key=seconds.get, default=None)
    return (
        "failed" if ours is None else f"**{number(ours)}**",
        "" if best is None else f"{number(seconds[best])} (`{best}`)",
        "" if ours is None or best is None else f"{ours / seconds[best]:.2f}",
    )


def _rounds(record):
    kinds = {"with a cold cache": record["cold_rounds"], "of scans": record["scan_rounds"]}
    others = ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n not in (0, record["rounds"]))
    return run_facts.rounds(record) + (f" ({others})" if others else "")


def run(record):
    others = {name: version for name, version in record["versions"].items() if name != OURS}
    yield from run_facts.trial_above_facts(why_trial(record))
    yield "| | |"
    yield "|---|---|"
    yield f"| machine | {run_facts.machine(record)} |"
    yield f"| system | {run_facts.system(record)} |"
    yield f"| file system | {record['machine']['file_system']} |"
    yield f"| {OURS} | {record['versions'].get(OURS, 'missing')}, commit `{record['commit']}` |"
    yield f"| peers | {', '.join(f'{name} {version}' for name, version in others.items())} |"
    yield f"| date | {run_facts.date(record)} |"
    yield f"| rounds | {_rounds(record)}, {run_facts.duration(record)} |"


def trees(record):
    yield "| tree | | files | hard links | MB | sets | copies |"
    yield "|---|---|---|---|---|---|---|"
    for tree, made in record["trees"].items():
        counts = (made["files"], made["links"], made["bytes"] / 1e6, made["sets"], made["redundant"])
        yield f"| {tree} | {TREES[tree]} | " + " | ".join(f"{count:,.0f}" for count in counts) + " |"
    if "b" in record["trees"]:
        bases = record["trees"]["b"]["bases"]
        yield ""
        yield f"The sources of tree b are {f'{bases} crates' if bases else 'invented'}."


def left_out(record):
    yield from [f"- {line}" for line in record["left_out"]] or ["Nothing."]


# ------------------------------------------------------------ who has found what


def agreements(record):
    measured = [(workload, c) for workload, contenders in record["results"].items() for c in contenders]
    failures = {tuple(pair.split()): problem for pair, problem in record["failures"].items()}
    yield "| tree | sets | found by | not by |"
    yield "|---|---|---|---|"
    for tree, made in record["trees"].items():
        same, other = agreement.on(tree, record["contenders"], measured, failures)
        yield f"| {tree} | {made['sets']:,} | {', '.join(same) or 'nobody'} | {', '.join(other)} |"
    if failures:
        yield ""
        yield "```text"
        yield from (f"{workload} {contender}: {problem}" for (workload, contender), problem in failures.items())
        yield "```"


def rivalries(record):
    """Cases for `scorecard.ahead`: everybody is held against everybody."""
    for workload, contenders in record["results"].items():
        if OURS in contenders and has_peers(workload):
            yield from ((workload, figure, OURS, lambda _: True) for figure in ("seconds", "peak_mb"))


# ------------------------------------------------------------ tables


def figures_on(record, tree):
    columns = [(tree, figure) for figure in COLUMNS] + [(f"{tree}-cold", "seconds")]
    yield from medians(record, columns, heading=_heading)


def _heading(workload, figure, _columns):
    return ("cold " if is_cold(workload) else "") + COLUMNS[figure]


def rescan(record, workload):
    yield from medians(record, [(workload, figure) for figure in COLUMNS], heading=_heading)


def scans(record):
    """Everything of ours that is about a database, beside what it is held against."""
    yield "| | files | ours | peak MB | held against | | ours ÷ that |"
    yield "|---|---|---|---|---|---|---|"
    for workload, contenders in record["results"].items():
        if is_scan(workload):
            yield from _scan_rows(record, workload, contenders)


def _scan_rows(record, workload, contenders):
    """One for each that it is held against, and one where there is nobody."""
    ours, files = contenders.get(OURS), record["trees"][tree_of(workload)]["files"]
    name = f"| {caption(workload)} | {files:,} |"
    if ours is None:
        yield f"{name} failed | | | | |"
        return
    figure = next(iter(ours))
    value = ours[figure][MEDIAN]
    name += f" **{scorecard.with_unit(value, figure)}** | {number(ours['peak_mb'][MEDIAN])} |"
    rivals = {c: figures[figure][MEDIAN] for c, figures in contenders.items() if c != OURS}
    best = min((c for c in rivals if record["contenders"][c] == "peer"), key=rivals.get, default=None)
    shown = [c for c in rivals if c == best or record["contenders"][c] == "reference"]
    for rival in shown:
        said = scorecard.with_unit(rivals[rival], figure)
        yield f"{name} {styled(rival, record['contenders'][rival])} | {said} | {value / rivals[rival]:.2f} |"
    if not shown:
        yield f"{name} | | |"


def database(record):
    rows = {w: figures.get(OURS, {}).get("bytes_per_file") for w, figures in record["results"].items()}
    rows = {workload: per_file[MEDIAN] for workload, per_file in rows.items() if per_file}
    if not rows:
        yield "Not measured in this run."
        return
    yield "| tree | files | bytes per file | MB |"
    yield "|---|---|---|---|"
    for workload, per_file in rows.items():
        made = record["trees"][tree_of(workload)]
        # Each name is a row.
        files = made["files"] + made["links"]
        yield f"| {tree_of(workload)}, {TREES[tree_of(workload)]} | {files:,} | {per_file:.0f} | {per_file * files / 1e6:.0f} |"


def memory(record):
    contenders = record["results"].get(MEMORY_TREE)
    if not contenders:
        yield "Not measured in this run."
        return
    files = record["trees"][MEMORY_TREE]["files"]
    peaks = {contender: figures["peak_mb"][MEDIAN] for contender, figures in contenders.items()}
    yield f"| {files:,} files | peak MB | bytes per file |"
    yield "|---|---|---|"
    for contender in ranked(peaks, record["contenders"]):
        name = styled(contender, record["contenders"][contender])
        yield f"| {name} | {number(peaks[contender])} | {peaks[contender] * 1e6 / files:.0f} |"


def calls(record):
    counted = record["system_calls_per_file"]
    if not counted:
        yield "Not counted in this run."
        return
    yield "| | all | the most frequent |"
    yield "|---|---|---|"
    for contender in ranked({c: kept["all"] for c, kept in counted.items()}, record["contenders"]):
        name, kept = styled(contender, record["contenders"][contender]), counted[contender]
        yield f"| {name} | {kept['all']:.2f} | {system_calls.text(kept['most'])} |"
