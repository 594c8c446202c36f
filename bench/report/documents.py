"""The documents with figures: everything in them that a run decides is made here."""

import re

from . import blocks, charts, markers, record as records
from .matrix import markdown

DOCUMENT = "docs/performance.md"
READMES = ("README.md", "crates/tidegate/README.md")
FOLDER = "docs/performance"
RECORD = f"{FOLDER}/results.json"
OVERVIEW = "bars"


def made_from(record, read):
    """{path: text} of all files with figures; `read` gives the text that stands there now."""
    made = blocks.blocks(record)
    files = {path: markers.fill(read(path), made) for path in (DOCUMENT, *READMES)}
    files[RECORD] = records.text(record)
    files[f"{FOLDER}/tables.md"] = "\n".join(blocks.full_tables(record)) + "\n"
    files[f"{FOLDER}/matrix.md"] = "\n".join(matrix_page(record)) + "\n"
    for name in shown_charts(files[DOCUMENT]):
        files[f"{FOLDER}/{name}.svg"] = chart(record, name)
    return files


def differing(root, files):
    """Paths that are not what they should be, charts that nobody shows any more included."""
    changed = [path for path, text in files.items() if not _is(root / path, text)]
    return sorted(changed + _left_over(root, files))


def write(root, files):
    for path, text in files.items():
        if not _is(root / path, text):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
    for path in _left_over(root, files):
        (root / path).unlink()


def _is(path, text):
    return path.exists() and path.read_text() == text


def _left_over(root, files):
    there = (root / FOLDER).glob("*.svg")
    return [path for path in (str(svg.relative_to(root)) for svg in there) if path not in files]


def shown_charts(document):
    """The document decides which charts there are."""
    return sorted(set(re.findall(r"\]\(performance/([\w-]+)\.svg\)", document)))


def chart(record, name):
    if name == OVERVIEW:
        return charts.overview(record["bars"])
    samples = {
        (workload, contender): {f: _spread(summary) for f, summary in figures.items()}
        for workload, contenders in record["results"].items()
        for contender, figures in contenders.items()
    }
    drawn = dict(charts.charts([name], record["contenders"], samples))
    return drawn.get(f"{name}.svg") or charts.empty(name)


def _spread(summary):
    """Three samples with the same median, min and max."""
    median, low, high, _ = summary
    return [low, median, high]


def matrix_page(record):
    yield "# Who keeps which rule"
    yield ""
    yield (
        "Written by `bench/document`. The [conformance suite](../../crates/tidegate-conformance/README.md) on "
        "tidegate and on other pools, where they offer what a test asks; the rules are in "
        "[contract.md](../contract.md), what was added around a pool to ask at all in `bench/src/bin/matrix/`. "
        "Nobody else has promised these rules: a failure here is a difference, not a fault."
    )
    yield ""
    if record["matrix"] is None:
        yield "The suite was not part of this run."
    else:
        yield from markdown(record["matrix"]["outcomes"], record["matrix"]["reasons"])
