"""The blocks about bars: how a run is judged, where it falls short, who is ahead."""

from .bars import ABSOLUTE, DIFFERENCE, FLAT, SLOW_MODE
from .explanations import slow_name
from .numbers import number
from .record import MEDIAN

UNITS = {
    "loss": " %",
    "us_per_s": " µs/s",
    "ms": " ms",
    "peak_kb": " kB",
    "ns": " ns",
    "*": " ns",
    "seconds": " s",
    "peak_mb": " MB",
}
_SHOWN_SLOW = 5
_SHOWN_AHEAD = 5


def blocks(record):
    made = {"verdict": verdict, "bars": bars, "slow": slow, "short": short}
    return {name: block(record) for name, block in made.items()}


def verdict(record):
    judged = [bar for bar in record["bars"] if "met" in bar]
    met = sum(bar["met"] for bar in judged)
    yield f"**{met} of {len(judged)} bars are met.** {_steady(record['slow_modes'])}"


def _steady(modes):
    if not modes:
        return "Whether there are slow modes takes more rounds."
    steady = sum(mode["met"] for mode in modes)
    return f"In {steady} of {len(modes)} cases the slowest round is within {SLOW_MODE:g} × the median."


def bars(record):
    yield "| bar | ours | best peer | | limit | |"
    yield "|---|---|---|---|---|---|"
    for bar in record["bars"]:
        if "value" not in bar:
            yield f"| {bar['name']} | | | | | {'**failed**' if 'met' in bar else 'not measured'} |"
            continue
        peer = f"{with_unit(bar['best_value'], bar['figure'])} `{bar['best_peer']}`" if bar.get("best_peer") else ""
        yield (
            f"| {bar['name']} | {with_unit(bar['value'], bar['figure'])} | {peer} | {_relation(bar)} "
            f"| {_limit(bar)} | {'ok' if bar['met'] else '**short**'} |"
        )


def with_unit(value, figure):
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
    yield f"{_steady(modes)} The widest:"
    yield ""
    for mode in sorted(modes, key=lambda mode: -mode["ratio"])[:_SHOWN_SLOW]:
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


def ahead(record, cases):
    """Every peer that has less than ours in one of `cases`, bar or no bar.

    A case is (workload, figure, ours, whether a peer is to be held against it).
    """
    lines = [line for case in cases for line in _ahead_in(record, *case)]
    yield from lines or ["Nobody, in this run."]


def _ahead_in(record, workload, figure, ours, is_rival):
    contenders = record["results"][workload]

    def median(contender):
        return contenders[contender].get(figure, [float("inf")])[MEDIAN]

    rivals = [c for c in contenders if record["contenders"][c] == "peer" and is_rival(c)]
    ahead = [c for c in rivals if median(c) < median(ours) and number(median(c)) != number(median(ours))]
    if ahead:
        names = [f"`{c}` {number(median(c))}" for c in sorted(ahead, key=median)[:_SHOWN_AHEAD]]
        if len(ahead) > _SHOWN_AHEAD:
            names.append(f"{len(ahead) - _SHOWN_AHEAD} more")
        yield f"- {workload} {figure}, `{ours}` {number(median(ours))}: {', '.join(names)}"
