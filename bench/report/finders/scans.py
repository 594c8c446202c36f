"""Runs that are about what is remembered: first scans, scans of what has not changed, and reports.

What they begin with is made before the clock runs: for a first scan no database, for the others one of the
same tree; for a peer a cache that a run of its own has filled.
"""

import os
import shutil
import time

from ..rounds import RunFailed
from .peers import IN_FILES, IN_HOME, OURS, REPORT, SCAN, WALK
from .runs import CACHE, parsed
from .workloads import FIRST_SCAN, REPORTING, RESCAN, kind_of

# Files that changed shorter ago than this when they were read are read again: they may change once more
# without their times showing it. Ours has 2 s.
SETTLED_SECONDS = 3
# Marks the tree of whoever writes to the attributes of files: they would be new for everybody else.
OWN_TREE = "-attributes"


class Scans:
    """`attempt` is what `interleave` asks for. `make_own_tree()` makes one more tree with the same content.

    Databases, caches and that tree are gone afterwards.
    """

    def __init__(self, runs, make_own_tree):
        self.runs = runs
        self.make_own_tree = make_own_tree
        self.folder = runs.scratch / "remembered"
        self.own_tree = None
        # What was prepared, by workload and contender.
        self.ready = set()

    def __enter__(self):
        self.forget_all()
        return self

    def __exit__(self, *_problem):
        self.forget_all()

    def attempt(self, pair, patience):
        workload, contender = pair
        finder = self.runs.finders[contender]
        if contender == OURS:
            run = {FIRST_SCAN: self._first_scan, RESCAN: self._rescan, REPORTING: self._report}[kind_of(workload)]
        elif contender == WALK.name:
            run = self._walk
        else:
            run = self._cached if finder.cache else self._search
        return run(pair, finder, patience)

    def forget_all(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.own_tree:
            shutil.rmtree(self.own_tree.folder)
            self.own_tree = None
        self.ready.clear()

    # -------------------------------------------------------- ours

    def _first_scan(self, pair, _finder, patience):
        database = self._database(pair)
        if pair not in self.ready:
            self._scan(database, patience)
            self.ready.add(pair)
        self._forget(database)
        figures, counts = self._scan(database, patience)
        if counts["new"] != counts["files"] or not counts["reads"]:
            raise RunFailed(f"no first scan: {counts['new']} of {counts['files']} files are new")
        self._compare_report(database, patience)
        return figures | {"bytes_per_file": bytes_of(database) / counts["files"]}

    def _rescan(self, pair, _finder, patience):
        database = self._prepared(pair, patience)
        figures, counts = self._scan(database, patience)
        if counts["same"] != counts["files"] or counts["reads"] or counts["bytes_read"]:
            raise RunFailed(
                f"nothing has changed, and it read {counts['reads']} times, {counts['bytes_read']} bytes; "
                f"{counts['same']} of {counts['files']} files are as before"
            )
        self._compare_report(database, patience)
        return figures

    def _report(self, pair, _finder, patience):
        is_first = pair not in self.ready
        database = self._prepared(pair, patience)
        for _ in range(2 if is_first else 1):
            figures = self._compare_report(database, patience)
        return {"ms": figures.pop("seconds") * 1000} | figures

    def _prepared(self, pair, patience):
        """A database of the tree."""
        database = self._database(pair)
        if pair not in self.ready:
            self._forget(database)
            self._scan(database, patience)
            self.ready.add(pair)
        return database

    def _scan(self, database, patience):
        """(figures, what it has counted)"""
        settle(self.runs.tree)
        figures, data = self.runs.timed(SCAN, patience, database=database)
        counts = parsed(SCAN, data)
        if counts["state"] != "complete":
            raise RunFailed(f"a scan ended as {counts['state']}")
        return figures, counts

    def _compare_report(self, database, patience):
        figures, data = self.runs.timed(REPORT, patience, database=database)
        self.runs.compare(REPORT, data)
        return figures

    def _database(self, pair):
        folder = self._place(pair)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / "dupes.db"

    def _place(self, pair):
        """Of one contender alone, on the file system of the trees."""
        return self.folder.joinpath(*pair)

    def _forget(self, database):
        shutil.rmtree(database.parent)
        database.parent.mkdir()

    # -------------------------------------------------------- others

    def _search(self, pair, finder, patience):
        """As it is measured on the tree itself."""
        for _ in range(1 if pair in self.ready else 2):
            figures = self._search_with(finder, self.runs.tree, self.runs.scratch, patience)
            self.ready.add(pair)
        return figures

    def _walk(self, pair, finder, patience):
        made = self.runs.tree.made
        for _ in range(1 if pair in self.ready else 2):
            figures, data = self.runs.timed(finder, patience)
            seen = parsed(finder, data)["files"]
            if seen != made["files"] + made["links"]:
                raise RunFailed(f"it has seen {seen} files of {made['files'] + made['links']}")
            self.ready.add(pair)
        return figures

    def _cached(self, pair, finder, patience):
        tree = self._own_tree() if finder.cache == IN_FILES else self.runs.tree
        home = self._place(pair)
        if pair not in self.ready:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            settle(tree)
            self._search_with(finder, tree, home, patience)
            self.ready.add(pair)
        if not has_cache(finder, tree, home):
            raise RunFailed("it has kept nothing for a second run")
        return self._search_with(finder, tree, home, patience)

    def _search_with(self, finder, tree, home, patience):
        figures, data = self.runs.timed(finder, patience, tree, home)
        self.runs.compare(finder, data, tree)
        return figures

    def _own_tree(self):
        self.own_tree = self.own_tree or self.make_own_tree()
        return self.own_tree


def settle(tree):
    """Returns when its files are old enough to be remembered; `made` was written after all of them."""
    age = time.time() - (tree.folder / "made").stat().st_mtime
    if age < SETTLED_SECONDS:
        time.sleep(SETTLED_SECONDS - max(age, 0))


def has_cache(finder, tree, home):
    if finder.cache == IN_HOME:
        return any(file.is_file() and file.stat().st_size for file in (home / CACHE).rglob("*"))
    copies = next(iter(tree.expected().values()), ())
    return any(os.listxattr(os.fsencode(tree.files) + b"/" + path) for path in copies)


def why_no_attributes(folder):
    """None where files can have attributes of a user's own."""
    probe = folder / "attributes"
    probe.touch()
    try:
        os.setxattr(probe, "user.dupes", b"1")
    except OSError as problem:
        return f"files can't have attributes here: {problem.strerror}"
    finally:
        probe.unlink()
    return None


def bytes_of(database):
    """With what is not in the file itself yet: the last to close it has brought all there."""
    parts = [database, database.with_name(database.name + "-wal")]
    return sum(part.stat().st_size for part in parts if part.exists())
