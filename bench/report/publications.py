"""What is published: the figures of `bench/compare`, and those of `bench/dupes`."""

from . import blocks, markdown_tables, matrix, record, tables
from .documents import Publication
from .finders import blocks as finder_blocks, record as finder_record, workloads


def _compare_pages(record):
    return {
        "tables.md": _text(markdown_tables.full_tables(record, blocks.TABLES_INTRODUCTION, tables.unit)),
        "matrix.md": _text(matrix.page(record["matrix"])),
    }


def _dupes_pages(record):
    return {"tables.md": _text(markdown_tables.full_tables(record, finder_blocks.TABLES_INTRODUCTION, workloads.caption))}


def _text(lines):
    return "\n".join(lines) + "\n"


COMPARE = Publication(
    benchmark="bench/compare",
    document="docs/performance.md",
    readmes=("README.md", "crates/tidegate/README.md"),
    condense=record.condense,
    why_trial=record.why_trial,
    blocks=blocks.blocks,
    pages=_compare_pages,
    unit=tables.unit,
)
DUPES = Publication(
    benchmark="bench/dupes",
    document="docs/performance-dupes.md",
    readmes=("apps/dupes/README.md",),
    condense=finder_record.condense,
    why_trial=finder_record.why_trial,
    blocks=finder_blocks.blocks,
    pages=_dupes_pages,
    unit=workloads.caption,
)
ALL = (COMPARE, DUPES)


def of(results):
    """Whose results file this is, by its content; None if it is nobody's."""
    if not isinstance(results, dict) or "results" not in results:
        return None
    return DUPES if "trees" in results else COMPARE
