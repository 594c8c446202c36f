"""A bar chart per workload, as SVG that reads on light and on dark pages."""

import math
import statistics
from xml.sax.saxutils import escape

from .numbers import number
from .tables import unit

ROW = 22
LEFT = 170
PLOT = 470
RIGHT = 110
TOP = 46
BOTTOM = 14
# With wider gaps than this, equal steps would hide the shorter bars.
LOGARITHMIC_FROM = 30

# The page's own background shows through. Colours hold on white and on black.
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 14px; font-weight: 600; }
.quiet { fill: #6e7781; }
.peer { fill: #8c959f; } .reference { fill: none; stroke: #8c959f; stroke-dasharray: 3 2; }
.ours { fill: #1f78d1; } .whisker { stroke: #24292f; stroke-width: 1; fill: none; }
.mine { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .quiet { fill: #9198a1; } .peer { fill: #656c76; }
  .reference { stroke: #9198a1; } .ours { fill: #4493f8; } .whisker { stroke: #e6edf3; }
}
"""


def charts(workloads, roles, samples):
    """(file name, SVG) for each workload with figures."""
    for workload in workloads:
        rows = {c: samples[workload, c] for c in roles if samples.get((workload, c))}
        if rows:
            figure = next(iter(next(iter(rows.values()))))
            bars = {c: row[figure] for c, row in rows.items() if figure in row}
            yield f"{workload}.svg", chart(workload, figure, bars, roles)


def chart(workload, figure, bars, roles):
    """`bars` has the samples of each contender; the smallest median comes first."""
    order = sorted(bars, key=lambda contender: statistics.median(bars[contender]))
    scale, is_logarithmic = _scale([value for values in bars.values() for value in values])
    title = f"{workload}: {unit(workload)}"
    note = f"{figure}, median and min..max" + (", logarithmic" if is_logarithmic else "")
    width, height = LEFT + PLOT + RIGHT, TOP + ROW * len(order) + BOTTOM

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="8" y="18">{escape(title)}</text>',
        f'<text class="quiet" x="8" y="35">{escape(note)}</text>',
    ]
    for index, contender in enumerate(order):
        parts += _row(TOP + ROW * index, contender, roles[contender], bars[contender], scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(top, contender, role, values, scale):
    low, median, high = scale(min(values)), scale(statistics.median(values)), scale(max(values))
    middle = top + ROW / 2
    mine = ' class="mine"' if role == "ours" else ""
    yield f'<text{mine} x="{LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(contender)}</text>'
    yield f'<rect class="{role}" x="{LEFT}" y="{top + 4}" width="{median:.1f}" height="{ROW - 8}"/>'
    yield (
        f'<path class="whisker" d="M{LEFT + low:.1f} {middle}H{LEFT + high:.1f}'
        f'M{LEFT + low:.1f} {middle - 4}v8M{LEFT + high:.1f} {middle - 4}v8"/>'
    )
    label = number(statistics.median(values))
    yield f'<text{mine} x="{LEFT + max(median, high) + 6:.1f}" y="{middle + 4}">{label}</text>'


def _scale(values):
    """(pixels of a value, whether the scale is logarithmic); nothing is shorter than 0."""
    largest = max(max(values), 0.001)
    positive = [value for value in values if value > 0]
    if not positive or min(values) <= 0 or largest / min(positive) < LOGARITHMIC_FROM:
        return (lambda value: max(0.0, value) / largest * PLOT), False
    # Half of the smallest value is where bars begin.
    floor = math.log(min(positive) / 2)
    span = math.log(largest) - floor
    return (lambda value: max(0.0, math.log(value) - floor) / span * PLOT), True
