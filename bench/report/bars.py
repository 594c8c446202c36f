"""The bars, and how a run is judged by them.

A bar that is missed is a figure, not a failure.
"""

import statistics
from dataclasses import dataclass
from typing import Callable

from .numbers import number

# One allocation in a thousand tasks is a leftover of the warm-up, no price
# per task.
COUNTS_AS_ZERO = 0.001
# The slowest round of ours may take this many times the median round; of
# fewer rounds than this there is nothing to say.
SLOW_MODE = 3.0
ROUNDS_TO_SEE_MODES = 3


def any_peer(_name):
    return True


def from_a_plain_thread(name):
    return not name.endswith("_inside")


def tokio_inside(name):
    return name in ("tokio_spawn_inside", "tokio_sem_inside")


def one_item_per_task(name):
    return name != "rayon"


def default_splitting(name):
    return name == "rayon"


def bounded_outside(name):
    return name in ("tokio_sem", "async_channel")


def bounded_inside(name):
    return name in ("tokio_sem_inside", "async_channel_inside")


# How `ours` is held against the limit.
RATIO = "ratio"  # divided by the best peer
DIFFERENCE = "difference"  # less the best peer
ABSOLUTE = "absolute"  # as it is: a ratio to the peers would say nothing
FLAT = "flat"  # our largest figure divided by our smallest


@dataclass(frozen=True)
class Bar:
    workload: str
    figure: str
    limit: float
    ours: str = "tidegate"
    kind: str = RATIO
    peers: Callable[[str], bool] = any_peer
    label: str = ""
    # The role of whom it is held against: a reference, where it names one.
    against: str = "peer"

    @property
    def name(self):
        parts = [self.workload]
        if self.figure not in ("ns", "ms", "seconds", "loss", "us_per_s", "*"):
            parts.append(self.figure)
        if self.label:
            parts.append(self.label)
        return "-".join(parts)


def _bars():
    yield Bar("W1-2w1p", "ns", 0.40)
    yield Bar("W1-2w4p", "ns", 0.80)
    yield Bar("W1-8w1p", "ns", 0.40)
    yield Bar("W2", "ns", 0.60)
    yield Bar("W3-short", "ns", 0.25, peers=tokio_inside)
    yield Bar("W3-long", "ns", 1.1, peers=tokio_inside)
    yield Bar("W3t", "ns", 0.5, peers=tokio_inside)
    yield Bar("W4-back", "median", 0.8, peers=from_a_plain_thread)
    yield Bar("W4-back", "p99", 1.0, peers=from_a_plain_thread)
    yield Bar("W4-gap100", "median", 0.3, peers=from_a_plain_thread)
    yield Bar("W4-gap1000", "median", 0.7, peers=from_a_plain_thread)
    for workload, limit in (("W4-back", 0.2), ("W4-gap100", 0.1), ("W4-gap1000", 0.3)):
        yield Bar(
            workload, "median", limit, ours="tidegate_helping", peers=from_a_plain_thread, label="helping"
        )
    yield Bar("W5", "ns", 0.35, peers=one_item_per_task, label="one")
    yield Bar("W5", "ns", 1.3, peers=default_splitting, label="default")
    yield Bar("W5i", "ns", 0.60)
    yield Bar("W6", "loss", 2.0, kind=DIFFERENCE)
    yield Bar("W7", "us_per_s", 1.2)
    yield Bar("A", "spawn", 0, kind=ABSOLUTE)
    yield Bar("A", "handle", 0, kind=ABSOLUTE)
    yield Bar("A", "limited", 1, kind=ABSOLUTE)
    yield Bar("A", "large", 1, kind=ABSOLUTE)
    # 1,000 places of 64 bytes, as many cells, and what the pool itself is.
    yield Bar("A", "peak_kb", 256, kind=ABSOLUTE)
    yield Bar("S", "ms", 1.0, kind=ABSOLUTE)
    yield Bar("F", "*", 1.5, kind=FLAT)
    # A run that loses a task has no figure at all; these say that it was looked at.
    yield Bar("C", "lost", 0, kind=ABSOLUTE)
    yield Bar("C", "doubled", 0, kind=ABSOLUTE)
    for workload in ("W1a-ready", "W1a-yield", "W2a-ready", "W2a-yield", "W3a"):
        yield Bar(workload, "ns", 0.6, ours="tidegate_async", peers=bounded_outside)
        yield Bar(
            workload, "ns", 0.6, ours="tidegate_async_inside", peers=bounded_inside, label="inside"
        )


BARS = list(_bars())


def judge(bar, roles, samples, failures=()):
    """Compares medians. The best peer may be another one for each figure."""
    if (bar.workload, bar.ours) in failures:
        return _verdict(bar, "ours failed", {"met": False})
    if bar.kind == FLAT:
        return _judge_flatness(bar, samples)

    def median(contender):
        values = samples.get((bar.workload, contender), {}).get(bar.figure)
        return statistics.median(values) if values else None

    ours = median(bar.ours)
    peers = {c: median(c) for c, role in roles.items() if role == bar.against and bar.peers(c)}
    peers = {c: value for c, value in peers.items() if value is not None}
    if ours is None or not (peers or bar.kind == ABSOLUTE):
        return _verdict(bar, f"ours {'none' if ours is None else number(ours)} not compared")

    best = min(peers, key=peers.get) if peers else None
    against = "" if best is None else f" best {best} {number(peers[best])}"
    facts = {"value": ours, "best_peer": best, "best_value": peers.get(best)}
    if bar.kind == RATIO:
        # A peer that costs nothing is matched only by nothing.
        ratio = ours / peers[best] if peers[best] else (float("inf") if ours else 0.0)
        facts |= {"ratio": ratio, "met": ratio <= bar.limit}
        against += f" ratio {ratio:.2f}"
    elif bar.kind == DIFFERENCE:
        difference = ours - peers[best]
        facts |= {"difference": difference, "met": difference <= bar.limit}
        against += f" difference {difference:.2f}"
    else:
        facts |= {"met": ours <= bar.limit + COUNTS_AS_ZERO}
    return _verdict(bar, f"ours {number(ours)}{against}", facts)


def _judge_flatness(bar, samples):
    figures = samples.get((bar.workload, bar.ours), {})
    medians = {f: statistics.median(v) for f, v in figures.items() if f.startswith("ns_")}
    if len(medians) < 2:
        return _verdict(bar, "ours none not compared")
    largest, smallest = max(medians, key=medians.get), min(medians, key=medians.get)
    ratio = medians[largest] / medians[smallest]
    text = (
        f"ours {largest} {number(medians[largest])} best {smallest} {number(medians[smallest])}"
        f" ratio {ratio:.2f}"
    )
    if "runs" in figures:
        text += f" runs {min(figures['runs']):.0f}"
    return _verdict(bar, text, {"value": medians[largest], "ratio": ratio, "met": ratio <= bar.limit})


def _verdict(bar, text, facts=None):
    line = f"{bar.name} {text}"
    if facts is not None:
        line += f" bar {bar.limit:.2f} {'ok' if facts['met'] else 'short'}"
    shown = {"workload": bar.workload, "figure": bar.figure, "limit": bar.limit, "ours": bar.ours}
    return shown | {"name": bar.name, "kind": bar.kind, "line": line} | (facts or {})


# Figures that are no times, or whose rounds have nothing to do with modes.
_NO_MODES = ("A", "M", "C", "W7", "F")


def slow_modes(workloads, roles, samples):
    """One verdict per workload of ours: is there a mode far slower than the median?"""
    for workload in workloads:
        for contender, role in roles.items():
            figures = samples.get((workload, contender), {})
            if role != "ours" or workload in _NO_MODES or not figures:
                continue
            values = figures["ns"] if "ns" in figures else next(iter(figures.values()))
            if len(values) < ROUNDS_TO_SEE_MODES:
                continue
            slowest, median = max(values), statistics.median(values)
            ratio = slowest / median
            met = ratio <= SLOW_MODE
            line = (
                f"{workload} {contender} slowest of {len(values)} rounds / median"
                f" {number(slowest)} / {number(median)} ratio {ratio:.2f} bar {SLOW_MODE:.2f}"
                f" {'ok' if met else 'short'}"
            )
            yield {"workload": workload, "contender": contender, "ratio": ratio, "met": met, "line": line}
