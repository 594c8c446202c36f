"""Blocks in documents that a script writes: `<!-- figures:NAME -->` to `<!-- /figures -->`."""

import re

_BLOCK = re.compile(r"(<!-- figures:([a-z0-9_-]+) -->\n)(.*?)(<!-- /figures -->)", re.DOTALL)


class BadMarkers(Exception):
    pass


def blocks_in(text):
    """{name: what stands in it}"""
    _check(text)
    return {name: content for _, name, content, _ in _BLOCK.findall(text)}


def fill(text, blocks):
    """`text` with each of its blocks written anew."""
    unknown = blocks_in(text).keys() - blocks.keys()
    if unknown:
        raise BadMarkers(f"there are no figures {', '.join(sorted(unknown))}")
    return _BLOCK.sub(lambda block: f"{block[1]}{blocks[block[2]]}\n{block[4]}", text)


def _check(text):
    opened, closed = text.count("<!-- figures:"), text.count("<!-- /figures -->")
    blocks = _BLOCK.findall(text)
    nested = any("<!-- figures:" in content for _, _, content, _ in blocks)
    if not opened == closed == len(blocks) or nested:
        raise BadMarkers("a block of figures is not closed, or closed twice")
