"""A chart per workload, and one of all bars, as SVG.

Each brings its own background: a page may be dark where the system is light.
"""

import math
import statistics
from xml.sax.saxutils import escape

from .bars import RATIO
from .numbers import number
from .tables import unit

ROW = 22
LEFT = 205
PLOT = 470
RIGHT = 90
TOP = 52
BOTTOM = 14
# With wider gaps than this, equal steps would hide the shorter bars.
LOGARITHMIC_FROM = 30

STYLE = """
.page { fill: #ffffff; stroke: #d1d9e0; }
text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: #24292f; }
.title { font-size: 14px; font-weight: 600; }
.quiet { fill: #59636e; }
.peer { fill: #a9b2bc; } .reference { fill: none; stroke: #818b98; stroke-dasharray: 3 2; }
.ours { fill: #1f6feb; } .short { fill: #c4432b; }
.whisker { stroke: #24292f; stroke-width: 1; fill: none; }
.limit { stroke: #24292f; stroke-width: 2; } .even { stroke: #818b98; stroke-dasharray: 3 3; }
.mine { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; stroke: #3d444d; }
  text { fill: #e6edf3; } .quiet { fill: #9198a1; } .peer { fill: #57606a; }
  .reference { stroke: #9198a1; } .ours { fill: #4493f8; } .short { fill: #f0705c; }
  .whisker, .limit { stroke: #e6edf3; } .even { stroke: #9198a1; }
}
"""


def charts(workloads, roles, samples, unit=unit):
    """(file name, SVG) for each workload with contenders to compare; `unit` says what it is about."""
    for workload in workloads:
        rows = {c: samples[workload, c] for c in roles if samples.get((workload, c))}
        if len(rows) > 1:
            figure = next(iter(next(iter(rows.values()))))
            bars = {c: row[figure] for c, row in rows.items() if figure in row}
            yield f"{workload}.svg", chart(workload, figure, bars, roles, unit)


def chart(workload, figure, bars, roles, unit=unit):
    """`bars` has the samples of each contender; the smallest median comes first."""
    order = sorted(bars, key=lambda contender: statistics.median(bars[contender]))
    scale, is_logarithmic = _scale([value for values in bars.values() for value in values])
    note = f"{figure}: median and range of the rounds; less is better"
    note += "; logarithmic" if is_logarithmic else ""
    rows = []
    for index, contender in enumerate(order):
        rows += _row(TOP + ROW * index, contender, roles[contender], bars[contender], scale)
    return _page(f"{workload}: {unit(workload)}", note, len(order), rows)


def _row(top, contender, role, values, scale):
    low, median, high = scale(min(values)), scale(statistics.median(values)), scale(max(values))
    middle = top + ROW / 2
    mine = ' class="mine"' if role == "ours" else ""
    yield _label(top, contender, mine)
    yield f'<rect class="{role}" x="{LEFT}" y="{top + 4}" width="{median:.1f}" height="{ROW - 8}"/>'
    yield (
        f'<path class="whisker" d="M{LEFT + low:.1f} {middle}H{LEFT + high:.1f}'
        f'M{LEFT + low:.1f} {middle - 4}v8M{LEFT + high:.1f} {middle - 4}v8"/>'
    )
    label = number(statistics.median(values))
    yield f'<text{mine} x="{LEFT + max(median, high) + 6:.1f}" y="{middle + 4}">{label}</text>'


def overview(verdicts):
    """Each bar that is a ratio: what we take of the best peer's time, and the tick that it must not pass."""
    ratios = [verdict for verdict in verdicts if verdict["kind"] == RATIO and 0 < verdict.get("ratio", 0) < math.inf]
    ends = [v for verdict in ratios for v in (verdict["ratio"], verdict["limit"])] + [1.0]
    scale = _logarithmic(min(ends), max(ends))
    even = LEFT + scale(1.0)
    bottom = TOP + ROW * len(ratios)
    rows = [f'<path class="even" d="M{even:.1f} {TOP - 4}V{bottom + 2}"/>']
    for index, verdict in enumerate(ratios):
        rows += _overview_row(TOP + ROW * index, verdict, scale)
    note = "ours ÷ best peer, less is better; | is the bar, the broken line the best peer; logarithmic"
    return _page("All bars", note, len(ratios), rows)


def _overview_row(top, verdict, scale):
    end, limit = scale(verdict["ratio"]), scale(verdict["limit"])
    yield _label(top, verdict["name"], "")
    kind = "ours" if verdict["met"] else "short"
    yield f'<rect class="{kind}" x="{LEFT}" y="{top + 5}" width="{end:.1f}" height="{ROW - 10}"/>'
    yield f'<path class="limit" d="M{LEFT + limit:.1f} {top + 3}v{ROW - 6}"/>'
    # In a column of its own, where no tick is.
    yield f'<text class="mine" x="{LEFT + PLOT + 14}" y="{top + ROW / 2 + 4}">{verdict["ratio"]:.2f}</text>'


def empty(workload, unit=unit):
    return _page(f"{workload}: {unit(workload)}", "not measured in this run", 0, [])


def _label(top, text, attributes):
    return f'<text{attributes} x="{LEFT - 8}" y="{top + ROW / 2 + 4}" text-anchor="end">{escape(text)}</text>'


def _page(title, note, rows, parts):
    width, height = LEFT + PLOT + RIGHT, TOP + ROW * rows + BOTTOM
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
        f'<text class="title" x="12" y="21">{escape(title)}</text>',
        f'<text class="quiet" x="12" y="39">{escape(note)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _scale(values):
    """(pixels of a value, whether the scale is logarithmic); nothing is shorter than 0."""
    largest = max(max(values), 0.001)
    positive = [value for value in values if value > 0]
    if not positive or min(values) <= 0 or largest / min(positive) < LOGARITHMIC_FROM:
        return (lambda value: max(0.0, value) / largest * PLOT), False
    return _logarithmic(min(positive), largest), True


def _logarithmic(smallest, largest):
    """Half of the smallest value is where bars begin."""
    floor = math.log(smallest / 2)
    span = math.log(largest) - floor
    return lambda value: max(0.0, math.log(value) - floor) / span * PLOT
