"""The blocks of figures in the documents, made from the record of one run."""

from .bars import ABSOLUTE, DIFFERENCE, FLAT, SLOW_MODE
from .explanations import slow_name
from .matrix import totals
from .numbers import number
from .record import is_trial
from .tables import figures_of_all, unit

MEDIAN, LOW, HIGH, RUNS = range(4)
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
SHOWN_AHEAD = 5
UNITS = {"loss": " %", "us_per_s": " µs/s", "ms": " ms", "peak_kb": " kB", "ns": " ns", "*": " ns"}


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
        "verdict": verdict(record),
        "bars": bars(record),
        "slow": slow(record),
        "short": short(record),
        "ahead": ahead(record),
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
    }
    return {name: "\n".join(lines) for name, lines in made.items()}


# ------------------------------------------------------------ about the run


def headline(record):
    if is_trial(record):
        yield "*Of a trial, to be replaced by a full run: not to be quoted.*"
        yield ""
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
    yield f"{_machine(record)}; medians of {_rounds(record)}; {record['time'][:10]}."


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


def _machine(record):
    machine = record["machine"]
    kind = ", virtual" if machine["virtual"] else ""
    return f"{machine['cores']} cores ({machine['cpu']}{kind})"


def _rounds(record):
    return f"{record['rounds']} interleaved round{'s' if record['rounds'] > 1 else ''}"


def run(record):
    machine = record["machine"]
    if is_trial(record):
        yield "**A trial, not a result**: too few rounds, or not all of the workloads. A full run replaces it."
        yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| machine | {_machine(record)} |"
    yield f"| system | {machine['system']}, {machine['libc'] or 'unknown libc'} |"
    yield f"| compiler | rustc {record['versions']['rustc']} |"
    yield f"| tidegate | {record['versions']['tidegate']}, commit `{record['commit']}` |"
    yield f"| date | {record['time'][:10]} |"
    yield f"| rounds | {record['rounds']}, {record['seconds'] / 60:.0f} minutes in all, seed {record['seed']} |"
    if record["failures"]:
        yield f"| failed | {'; '.join(record['failures'])} |"


def versions(record):
    others = {name: version for name, version in record["versions"].items() if name not in ("rustc", "tidegate")}
    yield ", ".join(f"{name} {version}" for name, version in others.items()) + "."


# ------------------------------------------------------------ how we are judged


def verdict(record):
    judged = [bar for bar in record["bars"] if "met" in bar]
    met = sum(bar["met"] for bar in judged)
    steady = sum(mode["met"] for mode in record["slow_modes"])
    yield f"**{met} of {len(judged)} bars are met.** {_steady(steady, len(record['slow_modes']))}"


def _steady(steady, of):
    if not of:
        return "Whether there are slow modes takes more rounds."
    return f"In {steady} of {of} cases the slowest round is within {SLOW_MODE:g} × the median."


def bars(record):
    yield "| bar | ours | best peer | | limit | |"
    yield "|---|---|---|---|---|---|"
    for bar in record["bars"]:
        if "value" not in bar:
            yield f"| {bar['name']} | | | | | {'**failed**' if 'met' in bar else 'not measured'} |"
            continue
        peer = f"{_with_unit(bar['best_value'], bar['figure'])} `{bar['best_peer']}`" if bar.get("best_peer") else ""
        yield (
            f"| {bar['name']} | {_with_unit(bar['value'], bar['figure'])} | {peer} | {_relation(bar)} "
            f"| {_limit(bar)} | {'ok' if bar['met'] else '**short**'} |"
        )


def _with_unit(value, figure):
    """Round trips are in µs, as in their table."""
    if figure in ("median", "p99"):
        return f"{number(value / 1000)} µs"
    return f"{number(value)}{UNITS.get(figure, '')}"


def _relation(bar):
    if bar["kind"] == ABSOLUTE:
        return ""
    if bar["kind"] == DIFFERENCE:
        return f"{bar['difference']:+.2f}"
    return f"{bar['ratio']:.2f}"


def _limit(bar):
    what = {ABSOLUTE: "", DIFFERENCE: "difference ", FLAT: "largest ÷ smallest "}.get(bar["kind"], "")
    limit = bar["limit"]
    return f"{what}≤ {limit:g}"


def slow(record):
    modes = record["slow_modes"]
    if not modes:
        yield "Too few rounds to tell."
        return
    yield f"{_steady(sum(mode['met'] for mode in modes), len(modes))} The widest:"
    yield ""
    for mode in sorted(modes, key=lambda mode: -mode["ratio"])[:5]:
        mark = "" if mode["met"] else " **short**"
        yield f"- {mode['workload']} `{mode['contender']}`: {mode['ratio']:.2f} ×{mark}"


def short(record):
    lines = [bar["line"] for bar in record["bars"] if bar.get("met") is False]
    lines += [f"{slow_name(mode)} {mode['ratio']:.2f} × the median" for mode in record["slow_modes"] if not mode["met"]]
    if not lines:
        yield "No bar is short in this run."
        return
    yield "```text"
    yield from lines
    yield "```"


def ahead(record):
    """Every peer that is faster than ours somewhere, bar or no bar."""
    found = False
    for workload, contenders in record["results"].items():
        if workload in NO_RACE:
            continue
        for ours in ours_in(contenders):
            for figure, summary in contenders[ours].items():
                if figure in NO_RIVALRY or (workload, figure) == ("W6", "ns"):
                    continue
                faster = _faster(record, contenders, ours, figure)
                if faster:
                    found = True
                    names = [f"`{c}` {number(contenders[c][figure][MEDIAN])}" for c in faster[:SHOWN_AHEAD]]
                    if len(faster) > SHOWN_AHEAD:
                        names.append(f"{len(faster) - SHOWN_AHEAD} more")
                    yield f"- {workload} {figure}, `{ours}` {number(summary[MEDIAN])}: {', '.join(names)}"
    if not found:
        yield "Nobody, in this run."


def ours_in(contenders):
    """The pool of threads, and that of futures, on either side."""
    return [name for name in ("tidegate", "tidegate_async", "tidegate_async_inside") if name in contenders]


def _faster(record, contenders, ours, figure):
    """A pool of threads is held against everybody, one of futures against those fed from the same side."""

    def is_rival(contender):
        takes_futures = contender.removesuffix("_inside") in ("tokio_spawn", "tokio_sem", "async_channel")
        same_side = contender.endswith("_inside") == ours.endswith("_inside")
        suits = ours == "tidegate" or (takes_futures and same_side)
        return record["contenders"][contender] == "peer" and suits

    def median(contender):
        return contenders[contender].get(figure, [float("inf")])[MEDIAN]

    rivals = [c for c in contenders if is_rival(c) and median(c) < median(ours)]
    return sorted((c for c in rivals if number(median(c)) != number(median(ours))), key=median)


# ------------------------------------------------------------ tables


def medians(record, columns, in_thousands=False):
    """A row per contender, ours first; the best peer of a column is bold."""
    columns = [(w, f) for w, f in columns if w in record["results"]]
    if not columns:
        yield "Not measured in this run."
        return
    values = {}
    for workload, figure in columns:
        for contender, figures in record["results"][workload].items():
            if figure in figures:
                values.setdefault(contender, {})[workload, figure] = figures[figure][MEDIAN]
    roles = record["contenders"]
    order = ("ours", "peer", "reference")
    ranked = sorted(values, key=lambda c: (order.index(roles[c]), values[c].get(columns[0], float("inf"))))

    yield "| | " + " | ".join(_heading(*column, columns) for column in columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for contender in ranked:
        cells = [_cell(contender, column, values, roles, in_thousands) for column in columns]
        yield f"| {_styled(contender, roles[contender])} | " + " | ".join(cells) + " |"


def _heading(workload, figure, columns):
    only_one = len({f for _, f in columns}) == 1
    return workload if only_one else f"{workload} {figure}"


def _cell(contender, column, values, roles, in_thousands):
    value = values[contender].get(column)
    if value is None:
        return ""
    peers = [row[column] for c, row in values.items() if column in row and roles[c] == "peer"]
    is_best = roles[contender] == "peer" and number(value) == number(min(peers))
    text = number(value / 1000 if in_thousands else value)
    return f"**{text}**" if is_best else text


def _styled(contender, role):
    return {"ours": f"**{contender}**", "reference": f"*{contender}*"}.get(role, contender)


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
        shown = [_with_unit(value, figure) for value in (price, times * step)]
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


def full_tables(record):
    """Every figure of every contender with its spread."""
    yield "# All figures"
    yield ""
    yield (
        "Written by `bench/document`. Medians with min..max over the rounds; `cpu_ms`, `cores` and `rss_kb` "
        "are of the whole process. What the workloads and the names are: "
        "[bench/README.md](../../bench/README.md)."
    )
    for workload, contenders in record["results"].items():
        figures = figures_of_all(contenders.values())
        first = figures[0]
        yield ""
        yield f"## {workload}: {unit(workload)}"
        yield ""
        yield "| | runs | " + " | ".join(figures) + " |"
        yield "|---" * (len(figures) + 2) + "|"
        for contender in sorted(contenders, key=lambda c: contenders[c].get(first, [float("inf")])[MEDIAN]):
            row = contenders[contender]
            cells = [_with_spread(row.get(figure)) for figure in figures]
            runs = max(summary[RUNS] for summary in row.values())
            yield f"| {_styled(contender, record['contenders'][contender])} | {runs} | " + " | ".join(cells) + " |"


def _with_spread(summary):
    if summary is None:
        return ""
    median, low, high, runs = summary
    return number(median) if runs == 1 else f"{number(median)} ({number(low)}..{number(high)})"
