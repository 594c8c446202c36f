"""Each bar that is short is explained by hand, below a heading that names it."""

import re

SECTION = "## Where we lose, and why"


def slow_name(verdict):
    """How a slow mode is named in a heading."""
    return f"{verdict['workload']} {verdict['contender']} slowest"


def short_names(record):
    bars = [verdict["name"] for verdict in record["bars"] if verdict.get("met") is False]
    slow = [slow_name(verdict) for verdict in record["slow_modes"] if not verdict["met"]]
    return bars + slow


def explained_names(text):
    """What the `###` headings of the section have in backticks."""
    _, _, section = text.partition(f"\n{SECTION}\n")
    section = re.split(r"^## ", section, flags=re.MULTILINE)[0]
    headings = re.findall(r"^### (.+)$", section, re.MULTILINE)
    return [name for heading in headings for name in re.findall(r"`([^`]+)`", heading)]


def compare(record, text):
    """(short and not explained, explained and not short)"""
    short, explained = short_names(record), explained_names(text)
    return [n for n in short if n not in explained], [n for n in explained if n not in short]
