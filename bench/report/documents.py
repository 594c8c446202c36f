"""The documents with figures: everything in them that a run decides is made here."""

import json
import re
from dataclasses import dataclass
from typing import Callable

from . import charts, markers, record as records

OVERVIEW = "bars"


@dataclass(frozen=True)
class Publication:
    """Where the figures of one benchmark stand, and what makes them from the record of a run."""

    benchmark: str
    document: str
    readmes: tuple
    # From a results file to its record, and from that to why it is only a trial (nothing if it is none).
    condense: Callable
    why_trial: Callable
    # From a record: {name: Markdown} for documents to ask for, {file name: text} beside the record.
    blocks: Callable
    pages: Callable
    # What the figures of a workload are.
    unit: Callable

    @property
    def folder(self):
        return self.document.removesuffix(".md")

    @property
    def record(self):
        return f"{self.folder}/results.json"

    def recorded(self, root):
        """What was kept of the last run; None before the first."""
        file = root / self.record
        return json.loads(file.read_text()) if file.exists() else None

    def made_from(self, record, read):
        """{path: text} of all files with figures; `read` gives the text that stands there now."""
        made = self.blocks(record)
        files = {path: markers.fill(read(path), made) for path in (self.document, *self.readmes)}
        files[self.record] = records.text(record)
        for name, text in self.pages(record).items():
            files[f"{self.folder}/{name}"] = text
        for name in self.shown_charts(files[self.document]):
            files[f"{self.folder}/{name}.svg"] = chart(record, name, self.unit)
        return files

    def differing(self, root, files):
        """Paths that are not what they should be, charts that nobody shows any more included."""
        changed = [path for path, text in files.items() if not _is(root / path, text)]
        return sorted(changed + self._left_over(root, files))

    def write(self, root, files):
        for path, text in files.items():
            if not _is(root / path, text):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
        for path in self._left_over(root, files):
            (root / path).unlink()

    def _left_over(self, root, files):
        there = (root / self.folder).glob("*.svg")
        return [path for path in (str(svg.relative_to(root)) for svg in there) if path not in files]

    def shown_charts(self, document):
        """The document decides which charts there are."""
        folder = re.escape(self.folder.rpartition("/")[2])
        return sorted(set(re.findall(rf"\]\({folder}/([\w-]+)\.svg\)", document)))


def _is(path, text):
    return path.exists() and path.read_text() == text


def chart(record, name, unit):
    if name == OVERVIEW:
        return charts.overview(record["bars"])
    samples = {
        (workload, contender): {f: _spread(summary) for f, summary in figures.items()}
        for workload, contenders in record["results"].items()
        for contender, figures in contenders.items()
    }
    drawn = dict(charts.charts([name], record["contenders"], samples, unit))
    return drawn.get(f"{name}.svg") or charts.empty(name, unit)


def _spread(summary):
    """Three samples with the same median, min and max."""
    median, low, high, _ = summary
    return [low, median, high]
