"""How figures are written: three digits at most, spread in brackets."""

import statistics


def number(value):
    if abs(value) >= 10:
        return f"{value:.0f}"
    return f"{value:.2f}"


def with_spread(values):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{number(middle)} ({number(low)}..{number(high)})"
