"""A table per workload, for a terminal."""

import statistics

from .numbers import with_spread

UNITS = {
    "A": "allocations per task; peak_kb: growth of the heap",
    "C": "counts of one run of ten million tasks",
    "F": "ns per task, by the number of tasks; each size the median of `runs` at least, on a warm pool",
    "M": "resident kB per idle worker",
    "S": "ms until the short tasks behind a sleeper are done",
    "W4": "ns per round trip",
    "W6": "% of the time lost against two bare threads",
    "W7": "µs of CPU per second, idle",
    "raw": "ns, without a pool",
}
DEFAULT_UNIT = "ns per task"


def group(workload):
    return workload.split("-")[0]


def unit(workload):
    return UNITS.get(group(workload), DEFAULT_UNIT)


def table(workload, contenders, results, what=None):
    """The lines, fastest first; then, behind a dash, who declined; then who failed."""
    rows = {c: results.samples[workload, c] for c in contenders if results.samples.get((workload, c))}
    yield f"{workload}, {what or unit(workload)}"
    if len(rows) == 1:
        yield from _one_contender(*rows.items())
    else:
        yield from _many_contenders(rows)
        for mark, pairs in (("-", results.declined), ("too slow for quick mode:", results.too_slow)):
            names = [c for c in contenders if (workload, c) in pairs]
            if names:
                yield f"  {mark}  {', '.join(names)}"
    for contender in contenders:
        if (workload, contender) in results.failures:
            yield f"  {contender} FAILED: {results.failures[workload, contender]}"


def _many_contenders(rows):
    by_first_figure = sorted(rows, key=lambda c: statistics.median(next(iter(rows[c].values()))))
    figures = figures_of_all(rows.values())
    most = max((_rounds(row) for row in rows.values()), default=0)
    cells = [["contender", *figures]]
    for contender in by_first_figure:
        row = rows[contender]
        name = contender if _rounds(row) == most else f"{contender} [{_rounds(row)}×]"
        cells.append([name, *(with_spread(row[f]) if f in row else "-" for f in figures)])
    widths = [max(map(len, column)) for column in zip(*cells)]
    for name, *rest in cells:
        padded = [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
        yield "  " + "   ".join([name.ljust(widths[0]), *padded])


def _one_contender(row):
    """Nobody to compare with: a line per figure."""
    contender, figures = row
    yield f"  {contender}"
    width = max(map(len, figures))
    for figure, values in figures.items():
        yield f"    {figure.ljust(width)}   {with_spread(values)}"


def figures_of_all(rows):
    """In the order in which they first come, `cpu_ms` and its like last."""
    seen = {}
    for row in rows:
        seen |= dict.fromkeys(row)
    last = [figure for figure in ("rss_kb", "cpu_ms", "cpu_s", "cores", "switches") if figure in seen]
    return [figure for figure in seen if figure not in last] + last


def _rounds(row):
    return max(len(values) for values in row.values())

