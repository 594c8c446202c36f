"""Who is measured, and how each is told the same task.

Everybody looks at hidden files, obeys no ignore files, leaves out empty files only,
keeps no cache and follows no links.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Callable

from . import outputs

OURS = "dupes"
# In a command, stand for the tree and for the file that the result is written to.
TREE, RESULT = "{tree}", "{result}"


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

    @property
    def program(self):
        return self.command[0]

    def arguments(self, program, tree, result):
        """The whole command, and whether its stdout is the result."""
        places = {TREE: str(tree), RESULT: str(result)}
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

_FCLONES = ("fclones", "group", "--hidden", "--no-ignore", "--min", "1", "--format", "fdupes")
_CZKAWKA = (
    "czkawka_cli dup --directories {tree} --minimal-file-size 1 --search-method HASH --disable-cache"
    " --ignore-error-code-on-found --do-not-print-results --compact-file-to-save {result} --hash-type"
).split()

PEERS = [
    Finder("fclones", (*_FCLONES, TREE), outputs.blocks, ("cargo", "fclones")),
    Finder("fclones-tuned", (*_FCLONES, "--threads", "8,8", TREE), outputs.blocks, ("cargo", "fclones")),
    Finder("czkawka-xxh3", (*_CZKAWKA, "XXH3"), outputs.czkawka, ("cargo", "czkawka_cli")),
    Finder("czkawka-blake3", (*_CZKAWKA, "BLAKE3"), outputs.czkawka, ("cargo", "czkawka_cli")),
    Finder("yadf", ("yadf", "--no-empty", "--format", "fdupes", TREE), outputs.blocks, ("cargo", "yadf")),
    Finder("jdupes", ("jdupes", "-r", "-q", "-0", TREE), outputs.nul_blocks, ("apt", "jdupes")),
    Finder(
        "rmlint",
        ("rmlint", "--types", "df", "--hidden", "--size", "1", "--output", "json:" + RESULT, TREE),
        outputs.rmlint,
        ("apt", "rmlint"),
    ),
    Finder("rdfind", ("rdfind", "-outputname", RESULT, TREE), outputs.rdfind, ("apt", "rdfind")),
    Finder("fdupes", ("fdupes", "-r", "-n", "-q", TREE), outputs.blocks, ("apt", "fdupes")),
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
