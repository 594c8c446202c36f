"""Who is measured, and how each is told the same task.

Everybody looks at hidden files, obeys no ignore files, leaves out empty files only and
follows no links. A cache has who is measured on a tree that has not changed, and nobody else.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Callable

from . import outputs

OURS = "dupes"
# In a command, stand for the tree, for the file that the result is written to and for our database.
TREE, RESULT, DATABASE = "{tree}", "{result}", "{database}"
# Places of a cache.
IN_HOME, IN_FILES = "home", "files"


@dataclass(frozen=True)
class Finder:
    name: str
    # The name of the program, then its arguments. Without RESULT it prints to stdout.
    command: tuple
    parse: Callable
    # Where it comes from: ("cargo", crate) or ("apt", package).
    source: tuple = ()
    # Exit codes of success: some say with theirs that there are duplicates.
    codes: tuple = (0,)
    # Where it keeps what it knows from one run to the next: not at all, in its HOME, or with the files.
    cache: str = ""

    @property
    def program(self):
        return self.command[0]

    def arguments(self, program, tree, result, database=""):
        """The whole command, and whether its stdout is the result."""
        places = {TREE: str(tree), RESULT: str(result), DATABASE: str(database)}
        rest = [_filled(argument, places) for argument in self.command[1:]]
        return [str(program), *rest], not any(RESULT in argument for argument in self.command)


def _filled(argument, places):
    for place, value in places.items():
        argument = argument.replace(place, value)
    return argument


# As anybody would call it: all that it says is computed, too.
DUPES = Finder(OURS, ("dupes", "find", TREE), outputs.dupes_text)
# Not measured: what it prints must be the same result.
DUPES_JSON = Finder(OURS, ("dupes", "find", "--format", "json", TREE), outputs.dupes_json)

_WITH_DATABASE = ("--database", DATABASE)
SCAN = Finder(OURS, ("dupes", "scan", "--progress", "never", "--json", *_WITH_DATABASE, TREE), outputs.counts)
REPORT = Finder(OURS, ("dupes", "report", "files", "--json", *_WITH_DATABASE), outputs.dupes_json)

# References: nobody's rivals, but what a scan is held against.
FIND = Finder("dupes-find", DUPES.command, outputs.dupes_text)
WALK = Finder("walk-and-stat", ("walk-and-stat", TREE), outputs.lines_of_counts)
REFERENCES = [FIND, WALK]

_FCLONES = ("fclones", "group", "--hidden", "--no-ignore", "--min", "1", "--format", "fdupes")
_CZKAWKA = (
    "czkawka_cli dup --directories {tree} --minimal-file-size 1 --search-method HASH"
    " --ignore-error-code-on-found --do-not-print-results --compact-file-to-save {result} --hash-type"
).split()
# By itself it remembers nothing of small files.
_CZKAWKA_CACHE = (*_CZKAWKA, "XXH3", "--minimal-cached-file-size", "1")
_CZKAWKA_PREHASH = ("--use-prehash-cache", "--minimal-prehash-cache-file-size", "1")
_RMLINT = ("rmlint", "--types", "df", "--hidden", "--size", "1", "--output", "json:" + RESULT, TREE)


def _cached(name, command, parse, source, cache=IN_HOME):
    return Finder(name, command, parse, source, cache=cache)


PEERS = [
    Finder("fclones", (*_FCLONES, TREE), outputs.blocks, ("cargo", "fclones")),
    Finder("fclones-tuned", (*_FCLONES, "--threads", "8,8", TREE), outputs.blocks, ("cargo", "fclones")),
    Finder("czkawka-xxh3", (*_CZKAWKA, "XXH3", "--disable-cache"), outputs.czkawka, ("cargo", "czkawka_cli")),
    Finder("czkawka-blake3", (*_CZKAWKA, "BLAKE3", "--disable-cache"), outputs.czkawka, ("cargo", "czkawka_cli")),
    Finder("yadf", ("yadf", "--no-empty", "--format", "fdupes", TREE), outputs.blocks, ("cargo", "yadf")),
    Finder("jdupes", ("jdupes", "-r", "-q", "-0", TREE), outputs.nul_blocks, ("apt", "jdupes")),
    Finder("rmlint", _RMLINT, outputs.rmlint, ("apt", "rmlint")),
    Finder("rdfind", ("rdfind", "-outputname", RESULT, TREE), outputs.rdfind, ("apt", "rdfind")),
    Finder("fdupes", ("fdupes", "-r", "-n", "-q", TREE), outputs.blocks, ("apt", "fdupes")),
    # yadf, jdupes 1.21, rdfind and fdupes 2.2 keep nothing that a second run could use.
    _cached("fclones-cache", (*_FCLONES, "--cache", TREE), outputs.blocks, ("cargo", "fclones")),
    _cached("fclones-tuned-cache", (*_FCLONES, "--cache", "--threads", "8,8", TREE), outputs.blocks, ("cargo", "fclones")),
    _cached("czkawka-cache", _CZKAWKA_CACHE, outputs.czkawka, ("cargo", "czkawka_cli")),
    _cached("czkawka-prehash-cache", (*_CZKAWKA_CACHE, *_CZKAWKA_PREHASH), outputs.czkawka, ("cargo", "czkawka_cli")),
    _cached("rmlint-xattr", (*_RMLINT, "--xattr"), outputs.rmlint, ("apt", "rmlint"), IN_FILES),
]


def select(names):
    """Those called so, or whose program is; all without names. Raises ValueError."""
    if not names:
        return PEERS
    wanted = {name.strip() for name in names}
    known = {p.name for p in PEERS} | {p.program for p in PEERS}
    if wanted - known:
        raise ValueError(f"no peer {', '.join(sorted(wanted - known))}; there are {', '.join(p.name for p in PEERS)}")
    return [p for p in PEERS if p.name in wanted or p.program in wanted]


def locate(finders, folder):
    """({finder's name: program}, one line for each that is left out); first what `--install` has built."""
    programs, left_out = {}, []
    for finder in finders:
        own = folder / "bin" / finder.program
        found = own if own.exists() else shutil.which(finder.program)
        if found:
            programs[finder.name] = found
        else:
            left_out.append(f"{finder.name} left out: no {finder.program} here (bench/dupes --install)")
    return programs, left_out


def version(program):
    """The first number with a dot in what it says."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    number = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    return number.group() if number else "unknown"
