"""Results in one form, whoever found them, and where two of them differ.

Normalised, a result is {first path: all paths of its set, in order}: paths below the
tree, one name for each file (hard links are one file), sets of at least two files.
"""

# Of a set in a message.
_SHOWN = 3


def normalise(found, root=b"", links=None):
    """`links` has {further name: the name that stands for the file}, below `root`."""
    prefix = root.rstrip(b"/") + b"/" if root else b""
    links = links or {}
    result = {}
    for paths in found:
        names = {_below(path, prefix) for path in paths}
        names = sorted({links.get(name, name) for name in names}) if links else sorted(names)
        if len(names) < 2:
            continue
        # A file in two sets is no answer: both together equal no expected set.
        result[names[0]] = result.get(names[0], ()) + tuple(names)
    return result


def _below(path, prefix):
    return path[len(prefix) :] if path.startswith(prefix) else path


def first_difference(expected, found):
    """None, or one sentence about the first set, by its first path, that is not in both."""
    if expected == found:
        return None
    first = min(k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k))
    sets = len(found.items() ^ expected.items())
    return f"{_text(found.get(first))} instead of {_text(expected.get(first))}, {sets} sets differ"


def _text(paths):
    if paths is None:
        return "no set"
    shown = " ".join(path.decode(errors="backslashreplace") for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"[{shown}{more}]"


def read_links(data):
    names = data.split(b"\0")[:-1]
    return dict(zip(names[::2], names[1::2]))
