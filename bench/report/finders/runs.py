"""One run of one finder on one tree: timed, then its result compared, and only then a figure.

What is about a database or a cache is in `scans.py`.
"""

import os
import subprocess
from pathlib import Path

from ..rounds import RunFailed, Rules
from . import sets
from .peers import DUPES_JSON, OURS
from .processes import finish
from .workloads import FULL_ROUNDS_OF, QUICK_ROUNDS_OF, is_cold, is_scan

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
# Who takes this long for a round is not the best one, and has fewer rounds: (seconds, rounds). Its
# first run is the figure: it does not run once to warm up.
SLOW = [(20, 1)]
QUICK_SLOW = [(5, 1)]
# Below a HOME, for caches and nothing else.
CACHE = "cache"
PATIENCE_SECONDS, QUICK_PATIENCE_SECONDS = 600, 90


class FinderRules(Rules):
    def is_ours(self, contender):
        return contender == OURS

    def takes_part(self, workload, contender):
        return True

    def patience(self, hurry):
        return QUICK_PATIENCE_SECONDS if hurry else PATIENCE_SECONDS

    def rounds_of(self, workload, contender, options, seconds):
        slow = QUICK_SLOW if options.quick else SLOW
        # What fills a cache takes long once, and says nothing about the rounds.
        if self.is_ours(contender) or (is_scan(workload) and not options.quick):
            slow = []
        return min([most_rounds(workload, options)] + [few for limit, few in slow if seconds > limit])


def most_rounds(workload, options):
    few = QUICK_ROUNDS_OF if options.quick else FULL_ROUNDS_OF
    return min(options.rounds, few.get(workload, options.rounds))


class Runs:
    """Runs on one tree. `attempt` is what `interleave` asks for."""

    def __init__(self, stopwatch, scratch, tree, finders, programs):
        self.stopwatch = stopwatch
        self.scratch = scratch
        self.tree = tree
        self.finders = {finder.name: finder for finder in finders}
        self.programs = programs
        self.links = tree.links()
        self.expected = tree.expected()
        self.warm = set()
        scratch.mkdir(parents=True, exist_ok=True)

    def attempt(self, pair, patience):
        workload, contender = pair
        finder = self.finders[contender]
        if is_cold(workload):
            drop_caches()
            self._prime(contender)
        elif contender not in self.warm:
            first = self._checked(finder, patience)
            if first["seconds"] > SLOW[0][0]:
                return first
            if contender == OURS:
                self._checked(DUPES_JSON, patience)
            self.warm.add(contender)
        return self._checked(finder, patience)

    def _prime(self, contender):
        """Programs and their libraries were dropped as well, and are not what is measured."""
        command = [self.programs[contender], "--version"]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)

    def _checked(self, finder, patience):
        figures, data = self.timed(finder, patience)
        self.compare(finder, data)
        return figures

    def compare(self, finder, data, tree=None):
        """Whether these are the sets of the tree, or of one with the same content. Raises RunFailed."""
        found = parsed(finder, data)
        found = sets.normalise(found, os.fsencode((tree or self.tree).files), self.links)
        difference = sets.first_difference(self.expected, found)
        if difference:
            raise RunFailed(f"another result: {difference}")

    def timed(self, finder, patience, tree=None, home=None, database=""):
        """(figures, what it printed or wrote)"""
        result, stdout, stderr = (self.scratch / name for name in ("result", "stdout", "stderr"))
        result.unlink(missing_ok=True)
        program, tree = self.programs[finder.name], tree or self.tree
        command, to_stdout = finder.arguments(program, tree.files, result, database)
        # No cache or setting of the user's takes part, and none is written.
        home = home or self.scratch
        places = {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home / CACHE)}
        watched = [self.stopwatch, stdout, stderr, *command]
        code, said, problem = finish(watched, patience, cwd=self.scratch, env=os.environ | places)
        if code != 0:
            raise RunFailed(problem.strip())
        figures = parse_figures(said)
        code = int(figures.pop("code"))
        if code not in finder.codes:
            raise RunFailed(f"exit code {code}: {' '.join(stderr.read_text(errors='replace').split())[:400]}")
        file = stdout if to_stdout else result
        return figures, file.read_bytes() if file.exists() else b""


def parsed(finder, data):
    try:
        return finder.parse(data)
    except (ValueError, KeyError, IndexError) as problem:
        raise RunFailed(f"its output can't be read: {problem!r}") from None


def parse_figures(said):
    figures = {name: float(value) for name, value in (line.split() for line in said.splitlines())}
    figures["peak_mb"] = figures.pop("peak_kb") * 1024 / 1e6
    order = ("seconds", "peak_mb", "cpu_s", "switches", "code")
    return {name: figures[name] for name in order}


def drop_caches():
    """Pages, folders and inodes; what is not written yet can't be dropped."""
    os.sync()
    DROP_CACHES.write_text("3")


def why_not_cold():
    """None where caches can be dropped."""
    try:
        drop_caches()
    except OSError as problem:
        return f"caches can't be dropped here: {problem.strerror}"
    return None
