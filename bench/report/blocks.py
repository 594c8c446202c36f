"""The blocks of figures in the documents about pools, made from the record of one run."""

from . import run_facts, scorecard
from .markdown_tables import medians
from .matrix import totals
from .numbers import number
from .record import HIGH, MEDIAN, RUNS, why_trial
from .tables import figures_of_all

TABLES_INTRODUCTION = (
    "Written by `bench/document`. Medians with min..max over the rounds; `cpu_ms`, `cores` and `rss_kb` "
    "are of the whole process. What the workloads and the names are: "
    "[bench/README.md](../../bench/README.md)."
)
# What the README shows: the workload, what it is about, and the figure of A beside it.
HEADLINES = (
    ("W1-2w1p", "fire and forget", "spawn"),
    ("W2", "result by handle", "handle"),
    ("W3-short", "… with timeout and cancellation", "limited"),
    ("W5", "an item of a slice", None),
)
# Yardsticks: a figure of ours, what of the machine it is held against, that figure of the raw costs
# or of another contender, and how much of it.
YARDSTICKS = (
    ("W1-2w1p", "tidegate", "ns", "a line goes to another core", ("raw", "machine", "cache_line_there_and_back"), 0.5),
    ("W2", "tidegate", "ns", "a line goes there and comes back", ("raw", "machine", "cache_line_there_and_back"), 1),
    ("W4-back", "tidegate", "median", "a line goes there and comes back", ("raw", "machine", "cache_line_there_and_back"), 1),
    ("W4-gap1000", "tidegate", "median", "two sleepers wake each other in turn", ("raw", "machine", "sleeper_there_and_back"), 1),
    ("W5", "tidegate", "ns", "two threads, started for it, with half of the slice each", ("W5", "bare_threads", "ns"), 1),
    ("W6", "tidegate", "ns", "two threads with half of the work each", ("W6", "bare_threads", "ns"), 1),
    ("W1a-yield", "tidegate_async_inside", "ns", "a task that is alone yields to tokio", ("raw", "machine", "tokio_yield_of_one_task"), 1),
)
# Of the whole process; nobody is judged by these.
BESIDE = {"rss_kb", "cpu_ms", "cores"}
# Not about who is faster; and figures that others say better.
NO_RACE = {"A", "C", "F", "raw"}
NO_RIVALRY = BESIDE | {"p99.9"}


def blocks(record):
    """{name: Markdown}, everything that a document can ask for."""
    times = ["W1-2w1p", "W1-2w4p", "W1-8w1p", "W2", "W3-short", "W3-long", "W3t"]
    futures = ["W1a-ready", "W1a-yield", "W2a-ready", "W2a-yield", "W3a"]
    trips = [(f"W4-{gap}", figure) for gap in ("back", "gap100", "gap1000") for figure in ("median", "p99")]
    idle = [("A", figure) for figure in ("spawn", "handle", "limited", "large", "peak_kb")]
    idle += [("M", "kb_per_worker"), ("W7", "us_per_s")]
    made = {
        "headline": headline(record),
        "run": run(record),
        "versions": versions(record),
        "ahead": scorecard.ahead(record, rivalries(record)),
        "tasks": medians(record, [(workload, "ns") for workload in times]),
        "futures": medians(record, [(workload, "ns") for workload in futures]),
        "trips": medians(record, trips, in_thousands=True),
        "items": medians(record, [("W5", "ns"), ("W5i", "ns"), ("W6", "loss")]),
        "resources": medians(record, idle),
        "stranding": medians(record, [("S", "ms")]),
        "flatness": flatness(record),
        "cancels": counts(record),
        "raw": raw(record),
        "yardsticks": yardsticks(record),
        "matrix": matrix(record),
    } | scorecard.blocks(record)
    return {name: "\n".join(lines) for name, lines in made.items()}


# ------------------------------------------------------------ about the run


def headline(record):
    yield from run_facts.trial_above_headline(why_trial(record))
    yield "| ns per short task, or item | tidegate | best peer |"
    yield "|---|---|---|"
    for workload, what, allocations in HEADLINES:
        medians_of = {c: row["ns"][MEDIAN] for c, row in record["results"].get(workload, {}).items()}
        # Of all peers: who a bar compares with is a narrower choice.
        peers = [c for c in medians_of if record["contenders"][c] == "peer"]
        if peers and "tidegate" in medians_of:
            best = min(peers, key=medians_of.get)
            ours_counted, best_counted = (_allocations(record, who, allocations) for who in ("tidegate", best))
            yield (
                f"| {what} | **{number(medians_of['tidegate'])}**{ours_counted} "
                f"| {number(medians_of[best])} (`{best}`){best_counted} |"
            )
    yield ""
    yield f"{run_facts.machine(record)}; medians of {run_facts.rounds(record)}; {run_facts.date(record)}."


def _allocations(record, contender, figure):
    if figure is None:
        return ""
    # Where the producer is makes no difference, and they are counted outside.
    counted = record["results"].get("A", {}).get(contender.removesuffix("_inside"), {})
    if figure not in counted:
        return ", allocations not counted"
    found = counted[figure]
    # The remains of a warm-up are no price per task.
    count = f"{found[MEDIAN]:.2f}".rstrip("0").rstrip(".")
    return f", {count} allocation{'' if count == '1' else 's'}"


def run(record):
    yield from run_facts.trial_above_facts(why_trial(record))
    yield "| | |"
    yield "|---|---|"
    yield f"| machine | {run_facts.machine(record)} |"
    yield f"| system | {run_facts.system(record)} |"
    yield f"| compiler | rustc {record['versions']['rustc']} |"
    yield f"| tidegate | {record['versions']['tidegate']}, commit `{record['commit']}` |"
    yield f"| date | {run_facts.date(record)} |"
    yield f"| rounds | {record['rounds']}, {run_facts.duration(record)} |"
    if record["failures"]:
        yield f"| failed | {'; '.join(record['failures'])} |"


def versions(record):
    others = {name: version for name, version in record["versions"].items() if name not in ("rustc", "tidegate")}
    yield ", ".join(f"{name} {version}" for name, version in others.items()) + "."


# ------------------------------------------------------------ who is held against whom


def rivalries(record):
    """Cases for `scorecard.ahead`."""
    for workload, contenders in record["results"].items():
        if workload in NO_RACE:
            continue
        for ours in ours_in(contenders):
            for figure in contenders[ours]:
                if figure not in NO_RIVALRY and (workload, figure) != ("W6", "ns"):
                    yield workload, figure, ours, _rivals_of(ours)


def ours_in(contenders):
    """The pool of threads, and that of futures, on either side."""
    return [name for name in ("tidegate", "tidegate_async", "tidegate_async_inside") if name in contenders]


def _rivals_of(ours):
    """A pool of threads is held against everybody, one of futures against those fed from the same side."""

    def is_rival(contender):
        takes_futures = contender.removesuffix("_inside") in ("tokio_spawn", "tokio_sem", "async_channel")
        same_side = contender.endswith("_inside") == ours.endswith("_inside")
        return ours == "tidegate" or (takes_futures and same_side)

    return is_rival


# ------------------------------------------------------------ tables


def flatness(record):
    contenders = record["results"].get("F", {})
    sizes = [f for f in figures_of_all(contenders.values()) if f.startswith("ns_")]
    yield from medians(record, [("F", size) for size in sizes])
    if "tidegate" in contenders:
        median, _, _, processes = contenders["tidegate"]["runs"]
        yield ""
        yield (
            f"Ours: at every size the median of {median:.0f} runs at least on one warm pool, "
            f"and of {processes} such process{'' if processes == 1 else 'es'} the median."
        )


def counts(record):
    figures = record["results"].get("C", {}).get("tidegate")
    if figures is None:
        yield "Not measured in this run."
        return
    yield "| " + " | ".join(("runs", "accepted in each", "completed", "cancelled", "lost", "doubled")) + " |"
    yield "|---" * 6 + "|"
    cells = [f"{figures[f][MEDIAN]:,.0f}" for f in ("accepted", "completed", "cancelled")]
    # The largest of all runs: one would be too many.
    cells += [f"{figures[f][HIGH]:,.0f}" for f in ("lost", "doubled")]
    yield f"| {figures['accepted'][RUNS]} | " + " | ".join(cells) + " |"


def raw(record):
    figures = record["results"].get("raw", {}).get("machine", {})
    yield "| | ns | min..max |"
    yield "|---|---|---|"
    for figure, (median, low, high, _) in figures.items():
        if figure not in BESIDE:
            yield f"| {figure.replace('_', ' ')} | {number(median)} | {number(low)}..{number(high)} |"


def yardsticks(record):
    """Ours beside what the machine takes for a step that it is made of."""
    rows = list(_yardstick_rows(record))
    if not rows:
        yield "Not measured in this run."
        return
    yield "| | ours | held against | takes | ours ÷ that |"
    yield "|---|---|---|---|---|"
    yield from rows


def _yardstick_rows(record):
    for workload, ours, figure, what, (source, who, raw_figure), times in YARDSTICKS:
        price = _median(record, workload, ours, figure)
        step = _median(record, source, who, raw_figure)
        if price is None or step is None:
            continue
        shown = [scorecard.with_unit(value, figure) for value in (price, times * step)]
        name = workload if ours == "tidegate" else f"{workload} `{ours}`"
        yield f"| {name} | {shown[0]} | {what} | {shown[1]} | {price / (times * step):.2f} |"


def _median(record, workload, contender, figure):
    return record["results"].get(workload, {}).get(contender, {}).get(figure, [None])[MEDIAN]


def matrix(record):
    if record["matrix"] is None:
        yield "The suite was not part of this run."
        return
    yield "| | passed | failed | hangs | not offered |"
    yield "|---|---|---|---|---|"
    for kind, (passed, failed, hangs, not_offered) in totals(record["matrix"]["outcomes"]):
        yield f"| {kind} | {passed} | {failed} | {hangs} | {not_offered} |"
